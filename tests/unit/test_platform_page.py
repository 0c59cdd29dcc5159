"""The page about platforms says what the code says: its table is made from the facts, its order is the registry's."""

import re
from pathlib import Path

import pytest

from outlast.clock import format_duration
from outlast.ports import PlatformFacts
from outlast.registry import PLATFORMS, detect_platform, platform_named, proven_platforms

_PAGE = Path(__file__).parents[2] / "docs" / "platforms.md"
_SETTINGS = _PAGE.parent / "settings.md"


def _row(facts: PlatformFacts) -> str:
    cells = (
        f"`{facts.name}`",
        format_duration(facts.grace_seconds),
        "" if facts.longest_grace_seconds is None else format_duration(facts.longest_grace_seconds),
        ", ".join(facts.notice_sources),
        format_duration(facts.mean_seconds_between_interruptions),
        str(facts.default_retries),
        "" if facts.max_retries is None else str(facts.max_retries),
        facts.logs,
        "yes" if facts.provisional else "",
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def test_the_table_of_facts_is_that_of_the_code() -> None:
    page = _PAGE.read_text()
    table = page[page.index("<!-- facts -->") : page.index("<!-- end of facts -->")]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [_row(platform_named(name).facts) for name in PLATFORMS]


def test_the_order_of_detection_is_that_of_the_code() -> None:
    page = _PAGE.read_text()
    section = page[page.index("## How a platform is recognised") : page.index("## What they do")]
    named = [name for line in section.splitlines() if line.startswith("| `") for name in _names(line.split("|")[1])]
    assert named == list(PLATFORMS)


_SIGNS = {
    "CLOUD_RUN_JOB", "CLOUD_RUN_WORKER_POOL", "K_SERVICE", "SLURM_JOB_ID", "AWS_BATCH_JOB_ID",
    "ECS_CONTAINER_METADATA_URI_V4", "KUBERNETES_SERVICE_HOST",
}  # fmt: skip


@pytest.mark.parametrize("sign", sorted(_SIGNS))
def test_a_sign_that_the_page_names_leads_to_its_platform(sign: str) -> None:
    [line] = [line for line in _PAGE.read_text().splitlines() if line.startswith("| `") and f"`{sign}`" in line][-1:]
    assert detect_platform({sign: "1"}).facts.name in _names(line.split("|")[1])


def test_the_share_and_the_exit_code_are_the_same_everywhere_as_the_page_says() -> None:
    facts = [platform_named(name).facts for name in PLATFORMS]
    assert {one.notice_share for one in facts} == {0.5}
    assert {one.interrupted_exit_code for one in facts} == {143}


def test_the_settings_name_the_proven_platforms() -> None:
    [row] = [line for line in _SETTINGS.read_text().splitlines() if line.startswith("| `OUTLAST_PLATFORM`")]
    assert tuple(_names(row.split("|")[2])) == proven_platforms()


def _names(cell: str) -> list[str]:
    return re.findall(r"`([a-z-]+)`", cell)
