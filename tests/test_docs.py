"""Every example in README.md and docs/ runs, and every command leaves with the code that the page promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import docs_pages
from docs_pages import PAGES, ROOT, Command, PageError, read_page

_WORK = {path: read_page(path.read_text()) for path in PAGES}
_SCRIPTS = [
    pytest.param(text, id=f"{path.relative_to(ROOT)}-{n}")
    for path in PAGES
    for n, text in enumerate(_WORK[path].scripts)
]
_WITH_COMMANDS = [path for path in PAGES if _WORK[path].commands]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "2"}  # as many threads as there are CPUs wait for each other


def run_script(source: str, folder: Path) -> None:
    """Runs a page's python blocks in a folder; fails the test with the traceback."""
    script = folder / "page.py"
    script.write_text(source)
    _run([sys.executable, str(script)], folder, promised=0)


def run_command(command: Command, folder: Path) -> None:
    """Runs a page's command in a folder; fails the test unless it leaves with the promised code."""
    _run(["bash", "-c", command.line], folder, promised=command.exit_code)


def _run(command: list[str], folder: Path, *, promised: int) -> None:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False, timeout=200
    )
    if done.returncode != promised:
        pytest.fail(f"{command[-1]} left with {done.returncode}, not {promised}:\n{done.stdout}\n{done.stderr}")


@pytest.mark.parametrize("source", _SCRIPTS)
def test_the_python_of_a_page_runs(tmp_path: Path, source: str) -> None:
    run_script(source, tmp_path)


@pytest.mark.parametrize("path", _WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_leave_as_promised(tmp_path: Path, path: Path) -> None:
    for name, body in _WORK[path].files.items():
        (tmp_path / name).write_text(body)
    for command in _WORK[path].commands:
        run_command(command, tmp_path)


def test_the_pages_are_found() -> None:
    assert ROOT / "README.md" in PAGES
    assert ROOT / "docs" / "first-job.md" in PAGES
    assert _SCRIPTS
    assert _WITH_COMMANDS


# --- this test can fail -----------------------------------------------------------------------------


def test_a_failing_block_is_seen(tmp_path: Path) -> None:
    page = read_page("# x\n```python\nvalue = 1\n```\ntext\n```python\nassert value == 2, 'seen'\n```\n")
    with pytest.raises(pytest.fail.Exception, match="seen"):
        run_script(page.scripts[0], tmp_path)


def test_an_unexpected_exit_code_is_seen(tmp_path: Path) -> None:
    page = read_page(
        "```console\n$ python -c 'raise SystemExit(3)'\n$ python -c \\\n  'raise SystemExit(3)'  # exit 3\n```\n"
    )
    with pytest.raises(pytest.fail.Exception, match="left with 3, not 0"):
        run_command(page.commands[0], tmp_path)
    run_command(page.commands[1], tmp_path)


def test_marks_are_obeyed_and_a_reason_is_needed() -> None:
    page = read_page(
        "<!-- separate -->\n```python\na\n```\n```python\nb\n```\n```python\nc\n```\n"
        "<!-- file: t.py -->\n```python\nd\n```\n<!-- not run: needs a cluster -->\n```console\n$ outlast nodes\n```\n"
        "```console\n$ make demo\noutput\n$ outlast platform\n```\n```toml\n[x]\n```\n"
    )
    assert page.scripts == ["b\n\nc\n", "a\n"]
    assert page.files == {"t.py": "d\n"}
    assert page.passed_over == ["needs a cluster"]
    assert page.commands == [Command("outlast platform")]
    with pytest.raises(PageError):
        read_page("<!-- not run: -->\n```python\na\n```\n")


def test_every_fence_of_every_page_is_read() -> None:
    for path in PAGES:
        text = path.read_text()
        assert len(docs_pages._BLOCK.findall(text)) * 2 == sum(line.startswith("```") for line in text.splitlines()), (
            path
        )
