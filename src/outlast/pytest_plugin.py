"""The pytest plugin: a fixture `rehearse`, with which a test asks whether a command survives its platform.

It does nothing, and loads nothing of outlast's, for tests that do not use the fixture. Provisional.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outlast import __version__

if TYPE_CHECKING:
    from outlast.rehearse.report import Report

_PYTHONS = ("python", "python3")
_PAGE = "outlast-report"


class Rehearse:
    """What the fixture gives: call it with a command."""

    def __init__(self, test: pytest.Item, folder: Path, kept: Path) -> None:
        self._test, self._folder, self._kept = test, folder, kept
        self._calls = 0

    def __repr__(self) -> str:
        return "rehearse"

    def __call__(
        self,
        command: str | Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        platform: str = "cloud-run",
        interruptions: int = 5,
        seed: int = 0,
        retries: int | None = None,
        results: str | Sequence[str] = (),
        tolerance: float = 0.0,
        scenarios: str | Sequence[str] = (),
        speed: float | None = None,
        in_place: bool = False,
        real_store: bool = False,
    ) -> "Report":
        """Rehearses a command as `outlast rehearse` does, and returns the report.

        `command`: text, split as a shell would (without running one), or a list. A first word `python` is the Python
        that runs the tests. `cwd`: the folder to rehearse in, copied; default: pytest's root folder. The other
        settings are the options of `outlast rehearse`, with its defaults. `report.survived` is False too where nothing
        could be shown; `report.reasons` says why. A test that fails shows the whole report; unless the command
        survived, a page of it lies in the test's `tmp_path`.

        Raises SettingsError for settings that cannot work.
        """
        from outlast.rehearse.request import Request  # noqa: PLC0415 - only tests that rehearse pay for it
        from outlast.rehearse.runner import rehearse  # noqa: PLC0415 - as above

        report = rehearse(
            Request(
                command=_words(command),
                folder=Path(self._folder if cwd is None else self._folder / cwd).resolve(),
                platform=platform,
                interruptions=interruptions,
                seed=seed,
                retries=retries,
                results=_several(results),
                tolerance=tolerance,
                in_place=in_place,
                real_store=real_store,
                scenarios=_several(scenarios),
                speed=speed,
            )
        )
        self._calls += 1
        self._show(report)
        return report

    def _show(self, report: "Report") -> None:
        """Sections are printed for tests that fail, and for those alone."""
        said = str(report)
        if not report.survived:
            said += f"\nreport: {self._write_page(report)}"
        self._test.add_report_section("call", f"rehearsal {self._calls}", said)

    def _write_page(self, report: "Report") -> Path:
        from outlast.rehearse.page import as_page  # noqa: PLC0415 - as above

        name = f"{_PAGE}.html" if self._calls == 1 else f"{_PAGE}-{self._calls}.html"
        page = self._kept / name
        page.write_text(as_page(report, version=__version__), encoding="utf-8")
        return page


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _words(command: str | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    if words and words[0] in _PYTHONS:
        words[0] = sys.executable
    return tuple(words)


@pytest.fixture
def rehearse(request: pytest.FixtureRequest, tmp_path: Path) -> Rehearse:
    """Rehearses a command: `assert rehearse("python train.py", platform="cloud-run").survived`."""
    return Rehearse(request.node, request.config.rootpath, tmp_path)
