"""Who a process is among several: each launcher's own words, none of them, and words that contradict each other."""

from types import SimpleNamespace
from typing import Any

import pytest

from outlast.errors import SettingsError
from outlast.ranks.world import World, world_in

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "node-0",
    "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip
LAUNCHERS = {
    "torchrun": (TORCHRUN, (3, 8, 1, 2)),
    "by hand": ({"RANK": "0", "WORLD_SIZE": "2"}, (0, 2, None, None)),
    "srun": (
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0"},
        (2, 4, 0, None),
    ),
    "Open MPI": (
        {
            "OMPI_COMM_WORLD_RANK": "1",
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        },
        (1, 2, 1, 2),
    ),
    "MPICH": ({"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}, (1, 3, 1, 3)),
    "JAX": ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "4", "JAX_COORDINATOR_ADDRESS": "h:1"}, (1, 4, None, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHERS)
def test_each_launcher_says_who_a_process_is(name: str) -> None:
    env, (rank, size, local_rank, local_size) = LAUNCHERS[name]
    world = world_in(env)
    assert world is not None
    assert (world.rank, world.size, world.local_rank, world.local_size) == (rank, size, local_rank, local_size)
    assert world.leads == (rank == 0)


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"WORLD_SIZE": "1", "RANK": "0"},
        {"WORLD_SIZE": "0"},
        {"WORLD_SIZE": " "},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # a batch script, which srun has not started
        {**TORCHRUN, "OUTLAST_RANKS": "off"},
    ],
)
def test_a_process_that_is_alone_is_in_no_world(env: dict[str, str]) -> None:
    assert world_in(env) is None


def test_torchrun_inside_of_srun_counts_and_hand_set_variables_must_agree_with_it() -> None:
    srun = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}
    world = world_in({**srun, **TORCHRUN})
    assert world is not None
    assert (world.rank, world.size) == (3, 8)
    agreed = world_in({**srun, "RANK": "1", "WORLD_SIZE": "4"})
    assert agreed is not None
    with pytest.raises(SettingsError, match=r"WORLD_SIZE says rank 0 of 4; SLURM_STEP_NUM_TASKS says rank 1 of 4"):
        world_in({**srun, "RANK": "0", "WORLD_SIZE": "4"})


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"WORLD_SIZE": "2"}, "RANK does not say"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK=2"),
        ({"WORLD_SIZE": "two", "RANK": "0"}, "WORLD_SIZE='two'"),
        ({"WORLD_SIZE": "2", "RANK": "-1"}, "RANK='-1'"),
        ({"OUTLAST_RANKS": "never"}, "OUTLAST_RANKS='never'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(env: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        world_in(env)


def test_two_launches_have_two_names_where_the_launcher_tells_them_apart() -> None:
    def launch(**more: str) -> str:
        world = world_in({**TORCHRUN, **more})
        assert world is not None
        return world.launch

    assert launch() == launch(RANK="0", LOCAL_RANK="0")
    assert launch() != launch(TORCHELASTIC_RESTART_COUNT="1")
    assert launch() != launch(MASTER_PORT="29501")
    assert launch() != launch(TORCHELASTIC_RUN_ID="s")


def test_what_jax_was_told_by_arguments_counts_where_no_variable_says_more() -> None:
    state = SimpleNamespace(client=object(), process_id=1, num_processes=2)
    modules: dict[str, Any] = {"jax._src.distributed": SimpleNamespace(global_state=state)}
    world = world_in({}, modules)
    assert world is not None
    assert (world.rank, world.size) == (1, 2)
    state.client = None
    assert world_in({}, modules) is None


@pytest.mark.parametrize(
    ("size", "local_size", "tasks", "spans"),
    [(8, 2, 4, True), (8, 8, 4, False), (4, None, 4, True), (8, None, 4, False), (8, 2, 1, False)],
)
def test_pods_that_are_the_machines_of_one_world_are_no_tasks_of_their_own(
    size: int, local_size: int | None, tasks: int, spans: bool
) -> None:
    assert World(0, size, 0, local_size, "l").spans_tasks(tasks) is spans
