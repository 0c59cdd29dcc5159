"""X16: the launcher gives its processes a time of its own, and kills what is left then, whatever the platform grants.

That a slow rank uses up the others' time can only be shown once several ranks are supported; one is, here.
"""

import json
import signal
import sys
from pathlib import Path

import pytest
from signalled import START, commits, events
from supervised import Supervised

_TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1")
_STEPS = """
say("world", os.environ["WORLD_SIZE"])
for step in job.steps(None):
    state["done"].append(step)
    if step == 7:
        say("begun")
        time.sleep(60)
"""


@pytest.mark.serial
def test_a_long_step_under_torchrun_is_left_before_torchrun_kills(tmp_path: Path) -> None:
    """The platform is said to give a minute; torchrun gives 4 s, and reports 1 for a worker's 143."""
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(START + _STEPS)
    env = {
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "4",
        "OUTLAST_URL": str(tmp_path / "store"),
        "OUTLAST_EVENTS_FILE": str(tmp_path / "events"),
    }
    with Supervised("--grace", "60s", "--", *_TORCHRUN, str(tmp_path / "job.py"), env=env) as run:
        run.wait_for("begun")
        assert run.wait_for("world") == "world 1"
        sent_at = run.send(signal.SIGTERM)
        assert run.leave() == 143, run.lines()
    assert any("4.0 s (torchrun kills its workers then" in line for line in run.lines())
    heard = {event["by"]: event["grace_seconds"] for event in events(tmp_path, "NoticeHeard")}
    assert heard == {"supervisor": 60, "job": 4}
    (stopped,) = (event for event in events(tmp_path, "Stopped") if event["step"] >= 0)
    assert (stopped["step"], stopped["lost_steps"], stopped["exit_code"]) == (7, 2, 143), json.dumps(stopped)
    assert stopped["monotonic"] - sent_at < 4, "torchrun would have killed it"
    assert commits(tmp_path) == [5]
    assert not any("SIGKILL" in line for line in run.lines()), run.lines()
