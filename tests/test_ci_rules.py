"""The rule of tests/conftest.py: skipping is for desks, and fails in CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_CONFTEST = Path(__file__).with_name("conftest.py")
_SKIPPED = {
    "in the test": "import pytest\ndef test_it():\n    pytest.skip('no server')\n",
    "by a mark": "import pytest\n@pytest.mark.skip(reason='no server')\ndef test_it(): ...\n",
    "a whole file": "import pytest\npytest.skip('no server', allow_module_level=True)\n",
    "a missing module": "import pytest\npytest.importorskip('no_such_module_anywhere')\ndef test_it(): ...\n",
}


def _run_pytest(folder: Path, *, ci: str) -> int:
    shutil.copy(_CONFTEST, folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        command, env={**os.environ, "CI": ci}, cwd=folder, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("source", _SKIPPED.values(), ids=_SKIPPED)
def test_a_skip_fails_in_ci_and_passes_on_a_desk(tmp_path: Path, source: str) -> None:
    (tmp_path / "test_skipped.py").write_text(source)
    assert _run_pytest(tmp_path, ci="true") != 0
    assert _run_pytest(tmp_path, ci="") in (0, 5)  # 5: nothing was collected


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import pytest\n@pytest.mark.xfail\ndef test_it():\n    assert False\n")
    assert _run_pytest(tmp_path, ci="true") == 0
