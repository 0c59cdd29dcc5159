"""What a rehearsal plays: the scenarios that were asked for, or what is drawn, on a platform that is set for them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from outlast.errors import SettingsError
from outlast.ports import PlatformFacts
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.procedures import procedure_named
from outlast.rehearse.request import Request, retry_budget
from outlast.rehearse.scenario import Interruption, Scenario, draw_scenario, missing_kinds, play
from outlast.rehearse.scenario_file import load_scenario
from outlast.rehearse.words import Procedure, Settings

_MIGRATIONS = "live migrations"


@dataclass(frozen=True, slots=True)
class Script:
    """The scenarios as one. `interruptions` empty: they are drawn."""

    procedure: Procedure
    name: str = ""
    interruptions: tuple[Interruption, ...] = ()
    given: Settings = field(default_factory=dict)
    speed: float = 1.0

    def scenario(self, request: Request, *, saves: bool, round_number: int) -> tuple[Interruption, ...]:
        """What happens in one round."""
        if self.interruptions:
            return play(self.interruptions, seed=request.seed, saves=saves, round_number=round_number)
        count = request.raised_interruptions
        return draw_scenario(count, seed=request.seed, saves=saves, round_number=round_number)

    def retries(self, request: Request, facts: PlatformFacts) -> int:
        """Enough for all that happens, unless it is told; raises SettingsError for more than the platform has.

        A cancelled attempt costs none. A program that leaves at a notice which is then revoked makes another needed.
        """
        if not self.interruptions:
            return retry_budget(facts, interruptions=request.raised_interruptions, asked=request.retries)
        last = [self.procedure.words[one.happenings[-1].word] for one in self.interruptions]
        own = sum(word.counts_as != "cancelled" for word in last)
        lacking = len(missing_kinds(self.interruptions, saves=True))
        enough = retry_budget(facts, interruptions=own + lacking, asked=request.retries)
        if request.retries is not None:
            return enough
        revoked = sum("revoked-after" in dict(what.settings) for one in self.interruptions for what in one.happenings)
        return enough + revoked if facts.max_retries is None else min(enough + revoked, facts.max_retries)

    def not_exercised(self, said: Sequence[str], landed: Sequence[Attempt], *, isolated: bool) -> list[str]:
        """What a verdict says of that, with what is this procedure's, this scenario's and this speed's."""
        moved = any("live-migration" in attempt.happened for attempt in landed)
        kept = [one for one in said if not (moved and one.startswith(_MIGRATIONS))]
        kept += self.procedure.not_exercised
        kept += () if isolated else self.procedure.needs_namespaces
        happened = Counter(word for attempt in landed for word in attempt.happened)
        planned = Counter(what.word for one in self.interruptions for what in one.happenings)
        if missed := list((planned - happened).elements()):
            kept.append(f"{', '.join(missed)}, of the scenario: the job had finished before")
        if self.speed != 1.0:
            kept.append(
                f"the program's own clock: the platform's times passed {self.speed:g} times as fast, and the job was "
                "told of them as they passed; its steps, saves and settings of time took as long as ever"
            )
        return kept


def read_script(request: Request, facts: PlatformFacts) -> Script:
    """The script of a request; raises SettingsError for scenarios that make no sense, alone or together."""
    if facts.procedure is None:
        raise SettingsError(f"--platform {facts.name}: its way to end a job cannot be rehearsed yet")
    procedure = procedure_named(facts.procedure)
    scenarios = [
        load_scenario(asked, folder=request.folder, platform=facts.name, procedure=procedure)
        for asked in request.scenarios
    ]
    return Script(
        procedure=procedure,
        name=", ".join(one.name for one in scenarios),
        interruptions=tuple(interruption for one in scenarios for interruption in one.interruptions),
        given=_given(scenarios),
        speed=_speed(request, scenarios),
    )


def _given(scenarios: Sequence[Scenario]) -> Settings:
    given: dict[str, float | int | str] = {}
    for one in scenarios:
        for name, value in one.given:
            if given.setdefault(name, value) != value:
                raise SettingsError(
                    f"the scenarios set {name} to {given[name]} and to {value}: rehearse them one by one"
                )
    return given


def _speed(request: Request, scenarios: Sequence[Scenario]) -> float:
    if request.speed is not None:
        return request.speed
    speeds = {one.speed for one in scenarios}
    if len(speeds) > 1:
        said = ", ".join(f"{speed:g}" for speed in sorted(speeds))
        raise SettingsError(f"the scenarios are made for speeds of {said}: choose one with --speed")
    return speeds.pop() if speeds else 1.0
