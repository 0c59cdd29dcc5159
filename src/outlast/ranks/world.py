"""Which of how many processes this is, from what its launcher says.

As of 2026-11-30: torchrun (and accelerate, which starts it) sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT (PyTorch, "torchrun"). srun sets
SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_ID and SLURM_STEP_NUM_TASKS in its tasks; a batch script has the first, and not
the last (srun(1) of Slurm 22.05). Open MPI sets OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (Open MPI FAQ,
"running MPI jobs"); MPICH and Intel MPI set PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Hydra), as srun does
with PMI-2. JAX reads JAX_PROCESS_ID, JAX_NUM_PROCESSES, JAX_COORDINATOR_ADDRESS.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from outlast.errors import SettingsError

RANKS = "OUTLAST_RANKS"
_LAUNCH_VARIABLES = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    *("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS"),
)
_MOST_RANKS = 100_000


@dataclass(frozen=True, slots=True)
class World:
    """This process among those that train together. `local_size`: how many of them are on this machine, None where
    nobody says. `launch` names what started them all, so that a later launch is another one. `address`: where the
    launcher says that rank 0 is; "" where it does not.
    """

    rank: int
    size: int
    local_rank: int | None
    local_size: int | None
    launch: str
    address: str = ""

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def on_one_machine(self) -> bool:
        """Whether all of them certainly are on this one."""
        return self.local_size == self.size

    def spans_tasks(self, tasks: int) -> bool:
        """Whether a platform's tasks, each a container of its own, are the machines of this world."""
        if tasks < 2:
            return False
        return self.local_size < self.size if self.local_size is not None else self.size == tasks


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The variables of one launcher: rank, size, local rank, local size. The first that is there counts of each."""

    rank: str
    size: str
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()


_TORCH = _Launcher("RANK", "WORLD_SIZE", ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",))
# What stands earlier was started later, inside the others: its word counts.
_LAUNCHERS = (
    _TORCH,
    _Launcher("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    _Launcher(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",)
    ),
    _Launcher("PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",)),
    _Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_LOCALID",), ()),
)


def world_in(env: Mapping[str, str], modules: Mapping[str, Any] | None = None) -> World | None:
    """The world of this process, None where it is alone. `modules`: what is imported, where JAX may know.

    Raises SettingsError for variables that make no sense or contradict each other.
    """
    if _is_off(env):
        return None
    found = [one for launcher in _LAUNCHERS if (one := _said_by(env, launcher)) is not None]
    if not found and modules is not None:
        found = list(_said_by_jax(modules))
    if not found:
        return None
    first = found[0]
    if "TORCHELASTIC_RUN_ID" not in env:  # which starts its own ranks inside of others
        _refuse_contradiction(found)
    rank, size, local_rank, local_size, _ = first
    if size == 1:
        return None
    address = env.get("MASTER_ADDR", "") or env.get("JAX_COORDINATOR_ADDRESS", "").rpartition(":")[0]
    return World(rank, size, local_rank, local_size, _launch(env), address.strip("[] "))


_Found = tuple[int, int, int | None, int | None, str]


def _is_off(env: Mapping[str, str]) -> bool:
    text = env.get(RANKS, "").strip().lower()
    if text not in ("", "auto", "off"):
        raise SettingsError(f'{RANKS}={env[RANKS]!r} is neither "auto" nor "off" (each process is a job of its own)')
    return text == "off"


def _said_by(env: Mapping[str, str], launcher: _Launcher) -> _Found | None:
    size = _count(env, launcher.size)
    if size is None:
        return None
    if size in (0, 1):
        return 0, 1, None, None, launcher.size
    rank = _count(env, launcher.rank)
    if rank is None:
        raise SettingsError(
            f"{launcher.size}={size} says that there are several processes, and {launcher.rank} does not say which "
            f"of them this is; set it, or {RANKS}=off for processes that have nothing to do with each other"
        )
    if rank >= size or size > _MOST_RANKS:
        raise SettingsError(f"{launcher.rank}={rank} is none of the ranks that {launcher.size}={size} leaves")
    local_rank = next((found for name in launcher.local_rank if (found := _count(env, name)) is not None), None)
    local_size = next((found for name in launcher.local_size if (found := _count(env, name)) is not None), None)
    return rank, size, local_rank, local_size, launcher.size


def _said_by_jax(modules: Mapping[str, Any]) -> Iterator[_Found]:
    """Where jax.distributed was initialized by arguments, or from what a TPU says."""
    state = getattr(modules.get("jax._src.distributed"), "global_state", None)
    size, rank = getattr(state, "num_processes", None), getattr(state, "process_id", None)
    if getattr(state, "client", None) is not None and isinstance(size, int) and isinstance(rank, int):
        yield rank, size, None, None, "jax.distributed"


def _refuse_contradiction(found: list[_Found]) -> None:
    several = [one for one in found if one[1] > 1]
    if len({(rank, size) for rank, size, *_ in several}) > 1:
        said = "; ".join(f"{name} says rank {rank} of {size}" for rank, size, _, _, name in several)
        raise SettingsError(
            f"the launchers contradict each other: {said}. Unset what does not hold, or set {RANKS}=off for processes "
            "that have nothing to do with each other"
        )


def _count(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise SettingsError(f"{name}={text!r} is not a whole number")
    return int(text)


def _launch(env: Mapping[str, str]) -> str:
    """A name that all ranks of a launch come to. Where nothing tells launches apart, meetings do; see meeting.py."""
    said = [f"{name}={env[name]}" for name in _LAUNCH_VARIABLES if env.get(name)]
    return sha256("\n".join(said).encode()).hexdigest()[:16]
