"""The rounds of the batch part: every case once, in an order that moves on by one from round to round."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.batch.servers import Servers
from benchmarks.batch.settings import ITEMS, LOADS, OF_ITEMS, OF_LOADS, SETTINGS
from benchmarks.figures import LIMITS
from benchmarks.samples import Result

# (which of BATCH, case, state in the report, address of its server) -> the run's result
RunOne = Callable[[str, str, str, str], Result]


class BatchRounds:
    """All rounds; the servers start with the first that needs them and end with this."""

    def __init__(self, chosen: tuple[str, ...], folder: Path) -> None:
        self._chosen, self._servers = chosen, Servers(folder)

    def __enter__(self) -> "BatchRounds":
        self._servers.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._servers.__exit__(*raised)

    def one(self, number: int, run: RunOne) -> Iterator[Result]:
        for which in self._chosen:
            if which in SETTINGS:
                yield from self._contenders(number, which, run)
        if ITEMS in self._chosen:
            yield run(ITEMS, "outlast", OF_ITEMS, "")
        if LOADS in self._chosen:
            result = run(LOADS, "outlast", OF_LOADS, "")
            bare = {name: value for name, value in result.figures.items() if name == "model_idle_bare"}
            yield replace(result, figures={name: value for name, value in result.figures.items() if name not in bare})
            yield replace(result, case=LIMITS, figures=bare, fails=None)

    def _contenders(self, number: int, which: str, run: RunOne) -> Iterator[Result]:
        setting = SETTINGS[which]
        try:
            server = self._servers.address(setting.server) if setting.server else ""
        except RuntimeError as error:
            yield Result(number, setting.state, "all", "batch", fails=str(error))
            return
        cases = list(setting.contenders)
        shift = number % len(cases)
        for case in cases[shift:] + cases[:shift]:
            yield run(which, case, setting.state, server)
