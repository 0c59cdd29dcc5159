"""What `outlast run` makes of its flags and its environment."""

import subprocess
import sys

import pytest

from outlast.errors import EXIT_HUMAN, SettingsError
from outlast.settings import SUPERVISED_EXECUTION
from outlast.supervise import make_plan


def test_a_flag_beats_its_variable_and_reaches_the_command_as_that_variable():
    env = {"OUTLAST_URL": "old", "OUTLAST_PLATFORM": "local", "OUTLAST_GRACE": "99", "HOME": "/h"}
    plan = make_plan(["true"], env, url="gs://b/p", platform="cloud-run", grace="9s")
    assert {name: plan.env[name] for name in env} == {
        "OUTLAST_URL": "gs://b/p",
        "OUTLAST_PLATFORM": "cloud-run",
        "OUTLAST_GRACE": "9s",
        "HOME": "/h",
    }
    assert plan.surroundings.facts.name == "cloud-run"
    assert plan.surroundings.grace_seconds == 9


def test_without_flags_the_environment_is_left_as_it_is_but_for_the_execution():
    plan = make_plan(["true"], {"OUTLAST_GRACE": "12"})
    assert set(plan.env) == {"OUTLAST_GRACE", SUPERVISED_EXECUTION}
    assert plan.surroundings.grace_seconds == 12


def test_each_invocation_has_its_own_execution_unless_it_is_inside_another():
    first, second = (make_plan(["true"], {}).env[SUPERVISED_EXECUTION] for _ in range(2))
    assert first != second
    assert make_plan(["true"], {SUPERVISED_EXECUTION: "outer"}).env[SUPERVISED_EXECUTION] == "outer"
    assert make_plan(["true"], {SUPERVISED_EXECUTION: ""}).env[SUPERVISED_EXECUTION]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"grace": "abc"}, "grace='abc'"),
        ({"grace": "-1"}, "grace='-1'"),
        ({"retries": "-1"}, "retries='-1'"),
        ({"retries": "1.5"}, "retries='1.5'"),
        ({"retries": "²"}, "retries='²'"),
        ({"retries": ""}, "retries=''"),
        ({"platform": "moon"}, "platform 'moon'"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"timeout": "0s"}, "timeout='0s'"),
        ({"url": ""}, "url=''"),
        ({"url": " "}, "url=' '"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(settings, named):
    with pytest.raises(SettingsError, match="^" + named.replace("²", ".")) as caught:
        make_plan(["true"], {}, **settings)
    assert caught.value.code == EXIT_HUMAN
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("grace", "kill_after"), [("10", 9.0), ("3", 2.7), ("30", 27.0), ("1h", 3585.0), ("0", 0.0)])
def test_the_kill_comes_half_a_margin_before_the_platforms(grace, kill_after):
    assert make_plan(["true"], {}, grace=grace).kill_after_seconds == pytest.approx(kill_after)


def test_outlast_run_loads_nothing_heavy():
    code = "import sys, outlast.cli.main, outlast.cli.run, outlast.supervise; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"rich", "numpy", "torch", "jax", "subprocess", "asyncio", "watchdog", "pathspec", "xxhash"}
    assert not heavy & set(loaded)
    assert not [
        name for name in loaded if name.startswith(("outlast.stores", "outlast.frameworks", "outlast.rehearse"))
    ]
