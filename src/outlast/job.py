"""The loop users write."""

import math
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from outlast.checkpoint.crashes import AfterCrashes, CrashPolicy
from outlast.checkpoint.journals import logged_numbers, read_journals
from outlast.checkpoint.places import checked_name
from outlast.checkpoint.retain import Keep, keep_policy
from outlast.checkpoint.sealed import digest
from outlast.clock import parse_duration
from outlast.driven import DrivenLoop
from outlast.errors import ExitingError, LoopMisused, SettingsError
from outlast.events import Logged
from outlast.garbage import collector_at_rest
from outlast.loops import BatchLoop, EpochLoop, StepLoop, check_total
from outlast.notices import Notice
from outlast.options import Options, checked_on_drift, checked_saving, default_job_name
from outlast.ranks.world import world_in
from outlast.registry import open_store
from outlast.schedule import Epochs, Every
from outlast.session import Session
from outlast.settings import REHEARSAL_STORE, Surroundings, console_for, look_around
from outlast.state.parts import UserState

T = TypeVar("T")
AnyLoop = TypeVar("AnyLoop", StepLoop, EpochLoop, DrivenLoop)
_DEFAULT_FOLDER = "./outlast-checkpoints"
_LOG_FLUSH_SECONDS = 1.0


class Job:
    """A training job that survives interruptions: `for step in job.steps(total)` yields what is left to do.

    Making it restores the newest good checkpoint, if there is one, into `state`: mutable values (modules,
    optimizers, writable arrays and tensors, lists, dicts, sets, generators) in place, every other value by
    assignment, to be read from `job.state[...]`.

    - `url`: a folder, a folder of a mounted bucket, gs://, s3:// or az://; None is $OUTLAST_URL, else
      ./outlast-checkpoints.
    - `state`: dict of the parts that make up the job's state. A value that cannot be restored faithfully is refused
      at once, naming its key path.
    - `name`: default the platform's job name, else the script's file name without suffix.
    - `run`: default $OUTLAST_RUN, else the newest run ("run-1", …).
    - `every`: when to save: "auto" (from what saves cost, how often interruptions come, and with what notice),
      a duration ("5min", seconds), Steps(n), Epochs(n); "0s" is every step.
    - `saving`: "auto" writes saves beside the training where that pays (all but small states on a local disk) and there
      is memory for a copy of the state; "background" wants that always; "blocking" writes while the training waits,
      with some 32 MiB of memory on a disk, 100 on a bucket; "lazy" also copies beside the next step what only a step
      of a torch optimizer changes, and checks that nothing else did.
    - `risk_limit`: a duration: when saves fail, or do not end, and more work than this is at risk, SaveFailed ends the
      job (75), so that it is started elsewhere. None: it goes on trying.
    - `keep`: how many verified checkpoints are kept (≥ 1), or a Keep policy.
    - `resume`: "latest"; "none" for a new run; a step to go back to (later checkpoints are set aside, not deleted).
    - `random_state`: whether the state of `random`, NumPy and torch travels along.
    - `require_finite`: refuse to save a state with NaN or infinite numbers.
    - `allow_missing`, `allow_extra`: names of parts that the checkpoint, or the program, may lack.
    - `classes`: dataclasses, enums and named tuples that the state may come to hold beside those in it now.
    - `crash_limit`, `after_crashes`: see CrashPolicy.
    - `on_drift`: what to do at a resume when the script, its arguments, package versions, Python, the hardware or the
      number of tasks changed since the checkpoint: "tell" says so in one line, "refuse" also leaves with 78.
    - `use_grace`: after a notice of a minute or more, save at once and train on until the last moment from which a
      final save surely ends in time. False: stop at the next border.

    Raises SettingsError, StateUnsupported, StateMismatch, NoGoodCheckpoint (all exit code 78), StoreUnreachable
    (75), Interrupted when a notice came meanwhile.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        state: dict[str, Any],
        name: str | None = None,
        run: str | None = None,
        every: Every = "auto",
        saving: str = "auto",
        risk_limit: str | float | timedelta | None = None,
        keep: int | Keep = 3,
        resume: str | int = "latest",
        random_state: bool = True,
        require_finite: bool = False,
        allow_missing: Collection[str] = (),
        allow_extra: Collection[str] = (),
        classes: Sequence[type] = (),
        crash_limit: int = 3,
        after_crashes: AfterCrashes | None = None,
        on_drift: str = "tell",
        use_grace: bool = True,
    ) -> None:
        with console_for(os.environ).telling():
            around = look_around(os.environ)
            world = world_in(os.environ, sys.modules)
            if around.cut_grace:
                around.console.warning(around.cut_grace)
            named = run or around.env.get("OUTLAST_RUN") or None
            fresh, rollback_to = _parsed_resume(resume)
            options = Options(
                url=_store_url(url, around),
                job=checked_name(name, setting="name") if name is not None else default_job_name(around),
                run=named,
                fresh_run=fresh,
                rollback_to=0 if fresh and named else rollback_to,
                every=every,
                keep=keep_policy(keep),
                crashes=CrashPolicy(crash_limit, after_crashes),
                on_drift=checked_on_drift(on_drift),
                use_grace=use_grace,
                saving=checked_saving(saving),
                risk_limit_seconds=None if risk_limit is None else parse_duration(risk_limit, setting="risk_limit"),
                allow_missing=_names(allow_missing, "allow_missing"),
                allow_extra=_names(allow_extra, "allow_extra"),
            )
            if isinstance(classes, type) or not all(isinstance(kind, type) for kind in classes):
                raise SettingsError(f"classes={classes!r} is not a list of classes")
            if not isinstance(state, dict):
                raise SettingsError(f"state={type(state).__name__} is not a dict of named parts")
            self._state = UserState(state, classes=classes, random_state=random_state, require_finite=require_finite)
            self._session = Session(self._state, options, around, world)
        self._loop: StepLoop | EpochLoop | DrivenLoop | None = None
        self._begun = False
        with self._telling(), collector_at_rest():
            self._session.start()
        self._begun = True
        self._logged_at = -math.inf

    # --- the loop -----------------------------------------------------------------------------------

    def steps(self, total: int | None) -> Iterator[int]:
        """The steps that are left of `total`, counted from 0; None is without end.

        When it ends, the last state is durable and the run is marked finished. Raises Interrupted at a step border
        when a notice has come, LoopMisused for a second loop.
        """
        with self._telling():
            if isinstance(self._session.options.every, Epochs):
                raise SettingsError("every=Epochs(...) counts epochs, and job.steps has none; use Steps(...)")
        return self._only(StepLoop(self._session, check_total("steps", total)))

    def epochs(self, total: int | None) -> Iterator[int]:
        """The epochs that are left of `total`, counted from 0; see `batches`.

        An epoch is complete when the next one is asked for. Code between the top of the epoch and `batches` runs
        again when an epoch is resumed in the middle; it finds the random state that it found before.
        """
        return self._only(EpochLoop(self._session, check_total("epochs", total)))

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of `loader` that are left in this epoch; each is a step. Once in each epoch.

        A loader with state_dict goes on by itself. Any other is asked for its iterator in the same random state
        again, and the consumed batches are dropped, unloaded where its sampler allows.
        """
        epochs = self._loop
        if not isinstance(epochs, EpochLoop):
            raise LoopMisused("job.batches(loader) belongs inside `for epoch in job.epochs(n):`")
        if epochs.batches_asked:
            raise LoopMisused("job.batches was already used in this epoch; count steps over one loader")
        epochs.batches_asked = True
        return BatchLoop(self._session, epochs, loader)

    def driven(self, total: int | None, *, unit: str = "steps") -> DrivenLoop:
        """Instead of a loop, for a framework that has one of its own: see outlast.callbacks and DrivenLoop.

        `total` counts `unit` ("steps", "epochs"). Provisional.
        """
        loop = self._only(DrivenLoop(self._session, check_total("driven", total)))
        with self._telling():
            loop.begin(unit)
        return loop

    def _only(self, loop: AnyLoop) -> AnyLoop:
        if self._session.stopped:
            self._session.stop()
        if self._loop is not None:
            raise LoopMisused("this Job has its loop already; one loop for each Job")
        self._loop = loop
        return loop

    # --- saving and stopping ------------------------------------------------------------------------

    def save(self, pin: bool = False) -> None:
        """Saves at the coming border if a step or an epoch is under way, else at once; `pin` keeps the checkpoint.

        Raises SaveFailed when a save at once does not succeed.
        """
        with self._telling():
            self._session.ask_save(pinned=pin)

    def check(self) -> None:
        """For long code without step borders (evaluation, warm-up): raises Interrupted when a notice has come.

        Nothing is ever saved in mid-step; the save of the last border is durable.
        """
        self._session.check()

    def finish(self) -> None:
        """Counts the step under way, saves, and marks the run finished, whatever its total."""
        with self._telling():
            if self._session.in_step:
                self._session.complete_step()
                if isinstance(self._loop, EpochLoop):
                    self._session.progress.batch += 1
            self._session.finish(None)

    def register(self, name: str, value: Any) -> Any:
        """Adds a part to the state before the first step, restoring it if the checkpoint has it.

        Returns what stands in `job.state[name]` now. Raises LoopMisused after the first step.
        """
        with self._telling():
            return self._session.register(name, value)

    # --- what the program may ask --------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The dict that was passed in."""
        return self._state.parts

    @property
    def stopping(self) -> bool:
        """Whether the job stops at the next border, so that retry helpers can give up."""
        return self._session.stopping

    @property
    def notice(self) -> Notice | None:
        """The notice (source, reason, deadline, remaining_seconds), or None before one."""
        return self._session.board.notice

    @property
    def resumed_from(self) -> int | None:
        """The number of completed steps that this process started from, or None on a first run."""
        return self._session.resumed_from

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self._session.progress.completed

    @property
    def batch(self) -> int:
        """The number of batches of this epoch that are done, from which a counter goes on after a resume:

        `for i, x in enumerate(job.batches(loader), job.batch)`.
        """
        return self._session.progress.batch

    @property
    def attempt(self) -> int:
        """This attempt's number within the run, from 0."""
        return self._session.attempt.number

    @property
    def finished(self) -> bool:
        """Whether the run is marked finished."""
        return self._session.finished

    def log(self, **numbers: float) -> None:
        """Journals numbers for the step under way; see `history`. Raises TypeError for what is no number."""
        values = {name: _number(name, value) for name, value in numbers.items()}
        self._session.check_process()
        self._session.saves.log(values)
        written = {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
        journal = self._session.attempt.journal
        journal.record_later(Logged(self._session.progress.completed, written))
        now = self._session.around.clock.monotonic_seconds()
        if journal.cheap and now - self._logged_at >= _LOG_FLUSH_SECONDS:
            self._logged_at = now
            journal.flush()

    def history(self) -> list[tuple[int, dict[str, float]]]:
        """What was logged in all attempts, as (step, numbers) in order, rewound at each resume.

        Of an attempt that logged more than 20,000 steps, those are kept that are multiples of 2, of 4, and so on.
        """
        attempt = self._session.attempt
        attempt.journal.flush()
        return logged_numbers(read_journals(open_store(self._session.options.url), attempt.place))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """An error that will leave with its own code is also a line, since a SystemExit shows no text."""
        try:
            yield
        except ExitingError as error:
            self._session.leave_with(error, now=not self._begun)
            raise


def _parsed_resume(resume: str | int) -> tuple[bool, int | None]:
    """(whether a new run is asked for, the step to go back to)."""
    if resume in ("latest", "none"):
        return resume == "none", None
    if isinstance(resume, bool) or not isinstance(resume, int) or resume < 0:
        raise SettingsError(f'resume={resume!r} is none of "latest", "none", a step (0 or more)')
    return False, resume


def _store_url(url: str | os.PathLike[str] | None, around: Surroundings) -> str:
    """Where the checkpoints go; a rehearsal's folder beats what was asked for, and says so."""
    if url is not None and not isinstance(url, str | os.PathLike):
        raise SettingsError(f"url={url!r} is not a folder or URL; the parts of the state go into state=")
    asked = os.fspath(url) if url is not None else around.env.get("OUTLAST_URL") or _DEFAULT_FOLDER
    rehearsal = around.env.get(REHEARSAL_STORE)
    if not rehearsal:
        return asked
    # Relative to the folder that the program runs in, so that the copies of a rehearsal get the same names.
    there = asked if "://" in asked else os.path.relpath(Path(asked).expanduser())
    folder = str(Path(rehearsal) / digest(there.encode())[:12])
    around.console.info(f"this is a rehearsal: checkpoints go to {folder} instead of {asked}")
    return folder


def _names(names: Collection[str], setting: str) -> frozenset[str]:
    if isinstance(names, str):
        raise SettingsError(f"{setting}={names!r} is one text; give a list of names")
    return frozenset(names)


def _number(name: str, value: Any) -> float:
    item = getattr(value, "item", None)  # an array scalar or a tensor of one element, which may require a gradient
    try:
        return float(item() if callable(item) else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"job.log({name}={value!r}): a number is needed") from error
