"""`[tool.outlast.lint]`: read from the nearest pyproject.toml, checked key by key."""

from pathlib import Path

import pytest

from outlast.errors import SettingsError
from outlast.lint.settings import find_settings, settings_from


def test_the_nearest_table_is_taken(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.outlast.lint]\nexclude = ["old/"]\nsave-time = "7s"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "no-table-here"\n')
    found = find_settings(inner)
    assert (found.exclude, found.known.save_seconds) == (("old/",), 7.0)


def test_every_setting_is_read() -> None:
    table = {
        "ignore": {"l002": "we keep them"}, "exclude": ["a"], "save-time": 12, "work-time": "3h", "state-bytes": 10,
        "exposure-hours": 5, "bucket-regions": {"example-bucket": "europe-west4"},
    }  # fmt: skip
    found = settings_from(table, "here")
    assert found.ignore == {"L002": "we keep them"}
    known = found.known
    assert (known.save_seconds, known.work_seconds, known.state_bytes, known.exposure_hours) == (12.0, 10800.0, 10, 5.0)
    assert known.bucket_regions == (("example-bucket", "europe-west4"),)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"exclud": []}, "did you mean exclude"),
        ({"colour": 1}, "there are ignore"),
        ({"ignore": ["CR008"]}, "rules and reasons"),
        ({"ignore": {"L001": " "}}, "rules and reasons"),
        ({"ignore": {"L003": "why"}}, "did you mean"),
        ({"exclude": "a"}, "list of patterns"),
        ({"save-time": "soon"}, "save-time"),
        ({"save-time": True}, "a duration"),
        ({"state-bytes": "1G"}, "number of bytes"),
        ({"state-bytes": 0}, "number of bytes"),
        ({"exposure-hours": -1}, "GPU hours"),
        ({"bucket-regions": {"a": 1}}, "buckets and regions"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(table: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        settings_from(table, "here")


@pytest.mark.parametrize("text", ["[tool.outlast\n", "[tool.outlast]\nlint = 3\n", "a = " + "[" * 5_000 + "\n"])
def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"pyproject\.toml"):
        find_settings(tmp_path)
