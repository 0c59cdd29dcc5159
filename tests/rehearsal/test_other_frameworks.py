"""Programs that do not use outlast: what a rehearsal says of the examples, and of them without what they added.

The plain loop is rehearsed in CI. Lightning and the Hugging Face Trainer take five seconds to import, in each of twenty
and more attempts: they run by `make frameworks`.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux"),
    pytest.mark.timeout(900),
]

EXAMPLES = Path(__file__).parents[2] / "examples"
# The notice comes first, and so in the training: while Python ends, which takes torch long, nobody hears any more.
NOTICE_FIRST = ("--seed", "5")
DEAF = "does not handle SIGTERM and, as PID 1, ignores it"


def rehearse_example(
    folder: Path, name: str, *options: str, grace: str = "10", change: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """Rehearses an example, in which one text is replaced by another first."""
    source, (old, new) = (EXAMPLES / name).read_text(), change
    assert not old or source.count(old) == 1
    (folder / name).write_text(source.replace(old, new) if old else source)
    command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "rehearse", "--json", *options]
    done = subprocess.run(
        [*command, "--interruptions", "3", "--result", "*-result.json", "--", sys.executable, name],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OUTLAST_GRACE": grace},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == {"survived": 0, "not-survived": 1, "could-not-rehearse": 2}[found["verdict"]], found
    return found


def test_a_plain_loop_that_keeps_only_its_weights_has_not_survived(tmp_path: Path) -> None:
    # A save that a kill has torn would end the attempts after it before they meet a notice.
    found = rehearse_example(tmp_path, "plain_loop.py", *NOTICE_FIRST, grace="0.5")
    assert found["verdict"] == "not-survived", found
    wrong = "plain-result.json is not what the uninterrupted run made: $.sum_of_weights"
    torn = "attempt 3 left with exit code 1: zipfile.BadZipFile"
    assert any(said in found["reasons"][0] for said in (wrong, torn, "the retries are used up")), found["reasons"]
    assert any(DEAF in reason for reason in found["reasons"])


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")


@pytest.mark.frameworks
@needs("lightning")
def test_the_lightning_example_ends_with_the_same_bits(tmp_path: Path) -> None:
    assert_survived(rehearse_example(tmp_path, "lightning_digits.py", *NOTICE_FIRST))


def assert_survived(found: dict[str, Any]) -> None:
    assert found["verdict"] == "survived", found
    assert all(one["same"] for one in found["results"])
    assert {one["kind"] for one in found["interruptions"]} == {"SIGTERM", "SIGKILL", "SIGKILL at a save"}
    assert not any(DEAF in reason for reason in found["reasons"])


@pytest.mark.frameworks
@needs("transformers")
def test_the_trainer_example_ends_with_the_same_bits(tmp_path: Path) -> None:
    assert_survived(rehearse_example(tmp_path, "trainer_digits.py", *NOTICE_FIRST))


_HANDLER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))"


@pytest.mark.frameworks
@needs("lightning")
@needs("transformers")
@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("lightning_digits.py", _HANDLER, "", "it left with 0, so the platform records success"),
        ("lightning_digits.py", "torch.manual_seed(trainer.global_step)", "pass", "lightning-result.json is not what"),
        ("trainer_digits.py", "if stop.stopping:\n        sys.exit(143)", "if False:\n        pass", "it left with 0"),
    ],
    ids=["Lightning's own exit code", "no random state", "the Trainer's own end"],
)
def test_without_an_addition_the_rehearsal_names_what_is_missing(
    tmp_path: Path, name: str, old: str, new: str, reason: str
) -> None:
    found = rehearse_example(tmp_path, name, *NOTICE_FIRST, change=(old, new))
    assert any(reason in said for said in found["reasons"]), found
    assert found["verdict"] == "not-survived"
