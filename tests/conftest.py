"""What holds for every test: under CI=true a skipped test is a failed one, and none knows where it runs."""

import os
import signal
from collections.abc import Generator

import pytest

# A test that runs in a pod or a batch job, and what it starts, must not find that out.
_OF_PLATFORMS = (
    "CLOUD_RUN_",
    "K_SERVICE",
    "KUBERNETES_",
    "SLURM_",
    "SBATCH_",
    "AWS_BATCH_",
    "ECS_",
    "TPU_",
    "TORCHELASTIC_",
)
for _name in [name for name in os.environ if name.startswith(_OF_PLATFORMS)]:
    del os.environ[_name]

# A shell without job control starts what it puts into the background with these ignored; so would all tests' programs.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    # An expected failure (xfail) is reported as skipped too, and is none.
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"under CI=true nothing may be skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
