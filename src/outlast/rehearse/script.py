"""What a rehearsal plays: the scenarios that were asked for, or what is drawn, on a platform that is set for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from outlast.errors import SettingsError
from outlast.ports import PlatformFacts
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.request import Request, retry_budget
from outlast.rehearse.scenario import Interruption, Scenario, draw_scenario, missing_kinds, play
from outlast.rehearse.scenario_file import load_scenario
from outlast.rehearse.words import Procedure, Settings


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


def read_script(request: Request) -> Script:
    """The script of a request.

    Raises SettingsError for a platform that cannot be rehearsed, and for scenarios that make no sense, alone or
    together.
    """
    procedure = procedure_on(request.platform)
    if request.nodes > 1 and procedure.nodes is None:
        raise SettingsError(
            f"--nodes {request.nodes}: on {request.platform} a job has no several nodes: {procedure.no_nodes}. "
            "Pods (kubernetes, gke-…) and slurm have"
        )
    scenarios = [
        load_scenario(asked, folder=request.folder, platform=request.platform, procedure=procedure)
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
