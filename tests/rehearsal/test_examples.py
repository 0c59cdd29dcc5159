"""The torch example survives Cloud Run's interruptions with the same bits.

In place, so without the cuts of saves and the many notices: torch takes two seconds to load, in 25 more
attempts. The README's page rehearses the other example with them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_torch.py"


def test_the_torch_example_ends_with_the_same_bits(tmp_path: Path) -> None:
    source = EXAMPLE.read_text()
    assert "EPOCHS = 150" in source
    # Fewer epochs, so that it is quick; they still reach the accuracy that the example asks of itself.
    (tmp_path / "train.py").write_text(source.replace("EPOCHS = 150", "EPOCHS = 30").replace('"1s"', '"0.2s"'))
    outlast = [sys.executable, "-c", "from outlast.cli.main import main; main()"]
    rehearse = ["rehearse", "--json", "--in-place", "--interruptions", "3", "--result", "*.json"]
    done = subprocess.run(
        [*outlast, *rehearse, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [one["same"] for one in found["results"]] == [True] * len(found["results"])
    assert len(found["results"]) >= 2  # the result file and the final checkpoint
    assert {one["kind"] for one in found["interruptions"]} == {"SIGTERM", "SIGKILL", "SIGKILL at a save"}
