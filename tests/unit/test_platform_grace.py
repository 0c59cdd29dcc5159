"""The grace is the smallest that is known, whoever says so (B26, X16); and which one counted is said."""

import json
from pathlib import Path

import pytest

from outlast import Job
from outlast.errors import SettingsError
from outlast.firmware import Firmware
from outlast.ports import KnownGrace
from outlast.registry import PLATFORMS
from outlast.settings import Surroundings, look_around
from outlast.supervise.launchers import patient

_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": "train-x7k2p"}
_SPOT = {**_POD, "OUTLAST_NODE_CLASS": "gke-spot"}
_GPU = {**_POD, "OUTLAST_NODE_CLASS": "gke-gpu"}
_TPU = {**_POD, "OUTLAST_NODE_CLASS": "gke-tpu"}
_SLURM = {"SLURM_JOB_ID": "42"}
_BATCH = {"AWS_BATCH_JOB_ID": "id", "AWS_BATCH_JOB_ATTEMPT": "1"}


def _around(env: dict[str, str], **named: object) -> Surroundings:
    return look_around(env, firmware=Firmware(), **named)


@pytest.mark.parametrize(
    ("env", "seconds", "who"),
    [
        ({}, 30, "nobody enforces one locally"),
        ({"OUTLAST_GRACE": "10min"}, 600, "OUTLAST_GRACE"),
        ({"CLOUD_RUN_JOB": "j"}, 10, "Cloud Run"),
        ({"CLOUD_RUN_JOB": "j", "OUTLAST_GRACE": "25"}, 10, "Cloud Run"),
        ({"CLOUD_RUN_JOB": "j", "OUTLAST_GRACE": "8s"}, 8, "OUTLAST_GRACE"),
        (_POD, 30, "terminationGracePeriodSeconds is 30 unless set"),
        ({**_POD, "OUTLAST_POD_GRACE": "600"}, 600, "OUTLAST_POD_GRACE"),
        ({**_POD, "OUTLAST_GRACE": "2min"}, 120, "OUTLAST_GRACE"),
        ({**_POD, "OUTLAST_POD_GRACE": "60", "OUTLAST_GRACE": "2min"}, 60, "OUTLAST_POD_GRACE"),
        ({**_POD, "OUTLAST_POD_GRACE": "600", "OUTLAST_GRACE": "2min"}, 120, "OUTLAST_GRACE"),
        ({**_POD, "OUTLAST_POD_GRACE": "0"}, 0, "OUTLAST_POD_GRACE"),
        (_SPOT, 15, "GKE, Spot VMs"),
        ({**_SPOT, "OUTLAST_POD_GRACE": "600"}, 15, "GKE, Spot VMs"),
        ({**_SPOT, "OUTLAST_POD_GRACE": "5"}, 5, "OUTLAST_POD_GRACE"),
        ({**_SPOT, "OUTLAST_GRACE": "105"}, 105, "OUTLAST_GRACE"),
        ({**_SPOT, "OUTLAST_GRACE": "120"}, 105, "node system configuration"),
        ({**_SPOT, "OUTLAST_GRACE": "105", "OUTLAST_POD_GRACE": "90"}, 90, "OUTLAST_POD_GRACE"),
        (_GPU, 30, "terminationGracePeriodSeconds is 30 unless set"),
        ({**_GPU, "OUTLAST_POD_GRACE": "3600"}, 3600, "OUTLAST_POD_GRACE"),
        ({**_GPU, "OUTLAST_POD_GRACE": "2h"}, 3600, "up to 3600 s"),
        ({**_TPU, "OUTLAST_POD_GRACE": "3600"}, 300, "up to 300 s"),
        ({**_POD, "OUTLAST_NODE_CLASS": "gke-gpu,gke-spot", "OUTLAST_POD_GRACE": "3600"}, 15, "GKE, Spot VMs"),
        ({**_SPOT, "OUTLAST_PLATFORM": "gke-gpu", "OUTLAST_POD_GRACE": "3600"}, 15, "GKE, Spot VMs"),
        (_SLURM, 30, "KillWait"),
        ({**_SLURM, "OUTLAST_GRACE": "300"}, 30, "KillWait"),
        ({**_SLURM, "OUTLAST_GRACE": "10"}, 10, "OUTLAST_GRACE"),
        (_BATCH, 30, "stopTimeout"),
        ({**_BATCH, "OUTLAST_GRACE": "300"}, 120, "2 min"),
        ({"OUTLAST_PLATFORM": "gce-spot"}, 30, "Spot VMs"),
        ({"OUTLAST_PLATFORM": "gce-spot", "OUTLAST_GRACE": "150"}, 150, "OUTLAST_GRACE"),
        ({"OUTLAST_PLATFORM": "azure-spot", "OUTLAST_GRACE": "150"}, 30, "Azure"),
    ],
)
def test_b26_the_smallest_known_grace_counts_and_says_whose_it_is(
    env: dict[str, str], seconds: float, who: str
) -> None:
    here = _around(env)
    assert here.grace_seconds == seconds
    assert who in here.grace.source


def test_an_argument_stands_in_for_the_variable_and_is_cut_as_well() -> None:
    told = {"CLOUD_RUN_JOB": "j", "OUTLAST_GRACE": "3"}
    assert _around(told, grace="5s").grace == KnownGrace(5, "--grace")
    assert _around(told, grace="1min").grace_seconds == 10


@pytest.mark.parametrize(
    ("env", "after"),
    [
        ({"CLOUD_RUN_JOB": "j"}, {"SIGTERM": 10}),
        (_SLURM, {"SIGTERM": 30, "SIGUSR1": 30}),
        ({**_SLURM, "SBATCH_SIGNAL": "USR1@300"}, {"SIGTERM": 30, "SIGUSR1": 300}),
        ({**_SLURM, "SBATCH_SIGNAL": "B:SIGUSR1@20"}, {"SIGTERM": 30, "SIGUSR1": 20}),
        ({**_SLURM, "SBATCH_SIGNAL": "R:usr1"}, {"SIGTERM": 30, "SIGUSR1": 60}),
        ({**_SLURM, "SBATCH_SIGNAL": "10@90"}, {"SIGTERM": 30, "SIGUSR1": 90}),
        ({**_SLURM, "SBATCH_SIGNAL": "TERM@300"}, {"SIGTERM": 30, "SIGUSR1": 30}),
        ({**_SLURM, "OUTLAST_GRACE": "300"}, {"SIGTERM": 30, "SIGUSR1": 300}),
        ({**_SLURM, "OUTLAST_GRACE": "100", "SBATCH_SIGNAL": "USR1@300"}, {"SIGTERM": 30, "SIGUSR1": 100}),
        (_BATCH, {"SIGTERM": 30, "aws-imds": 120}),
        ({**_BATCH, "OUTLAST_GRACE": "60"}, {"SIGTERM": 60, "aws-imds": 60}),
        ({**_GPU, "OUTLAST_POD_GRACE": "600"}, {"SIGTERM": 600, "kubernetes-node": 600, "gce-metadata": 600}),
    ],
)
def test_b26_each_notice_leaves_its_own_grace(env: dict[str, str], after: dict[str, float]) -> None:
    here = _around(env)
    assert {source: here.grace_after(source).seconds for source in here.facts.notice_sources} == after
    assert here.grace_after("something else").seconds == here.grace_seconds == min(after.values())


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_x16_a_launchers_own_grace_is_a_limit_everywhere(name: str) -> None:
    """X16: torchrun gives its workers 30 s, however long the platform waits for torchrun."""
    env = {"OUTLAST_PLATFORM": name, "OUTLAST_GRACE": "1h", "TORCHELASTIC_RUN_ID": "none"}
    assert _around(env).grace_seconds <= 30
    long = _around({**env, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "900"})
    without = _around({"OUTLAST_PLATFORM": name, "OUTLAST_GRACE": "1h"})
    assert long.grace_seconds == min(900, without.grace_seconds)


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_x16_the_second_that_open_mpi_gives_is_a_limit_unless_it_is_told_otherwise(name: str) -> None:
    env = {"OUTLAST_PLATFORM": name, "OUTLAST_GRACE": "1h", "OMPI_COMM_WORLD_SIZE": "2"}
    short = _around(env)
    assert short.grace_seconds == 1
    assert short.cut_grace is not None
    assert "mpirun kills its ranks then, unless OMPI_MCA_odls_base_sigkill_timeout says otherwise" in short.cut_grace
    without = _around({"OUTLAST_PLATFORM": name, "OUTLAST_GRACE": "1h"})
    long = _around({**env, "OMPI_MCA_odls_base_sigkill_timeout": "900"})
    assert long.grace_seconds == min(900, without.grace_seconds)


def test_x16_what_runs_a_command_tells_mpirun_to_wait_for_its_ranks_within_the_grace() -> None:
    assert patient({"A": "b"}, 18.5) == {"A": "b", "OMPI_MCA_odls_base_sigkill_timeout": "9"}
    assert patient({}, 0.4)["OMPI_MCA_odls_base_sigkill_timeout"] == "1"
    own = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}
    assert patient(own, 60) == own


def test_the_timeout_of_a_launcher_that_is_not_there_changes_nothing() -> None:
    assert _around({"OUTLAST_GRACE": "1h", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5"}).grace_seconds == 3600


def test_b26_a_grace_that_is_cut_is_told_and_one_that_is_not_is_not() -> None:
    cut = _around({**_SPOT, "OUTLAST_GRACE": "10min"}).cut_grace
    assert cut is not None
    assert cut.startswith("OUTLAST_GRACE=600 s is more than a job gets here: 105 s (GKE")
    assert _around({**_SPOT, "OUTLAST_GRACE": "12s"}).cut_grace is None
    assert _around({**_SPOT, "OUTLAST_POD_GRACE": "600"}).cut_grace is None
    assert _around({"CLOUD_RUN_JOB": "j"}).cut_grace is None
    slurm = _around({"SLURM_JOB_ID": "7", "OUTLAST_GRACE": "300"})  # what docs/howto/slurm.md asks for
    assert slurm.cut_grace is not None
    assert slurm.cut_grace.startswith("OUTLAST_GRACE=300 s is more than a job gets here after SIGTERM: 30 s (")
    assert slurm.grace_after("SIGUSR1").seconds == 300


def test_a_job_says_at_its_start_that_it_gets_less_than_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**_SPOT, "OUTLAST_GRACE": "10min"}.items():
        monkeypatch.setenv(name, value)
    Job(str(tmp_path), state={"x": 1}, name="j")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["severity"] for line in said if "OUTLAST_GRACE=600 s is more" in line["message"]] == ["WARNING"]


def test_what_is_usable_is_the_grace_less_the_margin() -> None:
    usable = {10: 8, 15: 12, 30: 24, 120: 96, 300: 270, 3600: 3570}
    assert {grace: _around({}, grace=grace).usable_seconds for grace in usable} == usable


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({**_POD, "OUTLAST_POD_GRACE": "soon"}, "OUTLAST_POD_GRACE='soon'"),
        ({**_POD, "OUTLAST_POD_GRACE": "-5"}, "OUTLAST_POD_GRACE='-5'"),
        ({**_POD, "OUTLAST_POD_GRACE": "nan"}, "OUTLAST_POD_GRACE='nan'"),
        ({**_POD, "OUTLAST_POD_GRACE": "1e999"}, "OUTLAST_POD_GRACE='1e999'"),
        ({**_SLURM, "SBATCH_SIGNAL": "USR1@soon"}, "SBATCH_SIGNAL='USR1@soon'"),
        ({**_SLURM, "SBATCH_SIGNAL": "@60"}, "SBATCH_SIGNAL='@60'"),
        ({**_SLURM, "SBATCH_SIGNAL": "USR1@999999"}, "SBATCH_SIGNAL='USR1@999999'"),
        ({"TORCHELASTIC_RUN_ID": "x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "-1"}, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT='-1'"),
    ],
)
def test_a_grace_that_makes_no_sense_is_refused_by_name(env: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        _around(env)
