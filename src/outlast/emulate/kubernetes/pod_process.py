"""One run of one container of a pod: its process, isolated, and its output kept line by line."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outlast.containers.container import Container, Mount, View, open_pidfd

_LAST_LINES_SECONDS = 2.0  # for output that is still in the pipe when the last process has ended


class PodProcess:
    """A started container. `handle` becomes readable when its first process has ended.

    What it writes outside of its mounts is lost with it. `log` gets each line, from a thread, and `no_more` is called
    after the last. `last_words` gives its termination message, by its exit code. `close` it in the end.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        root: Path,
        mounts: tuple[Mount, ...],
        log: Callable[[str], None],
        no_more: Callable[[], None],
        last_words: Callable[[int], str],
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        self._log, self._no_more, self.last_words = log, no_more, last_words
        self._reader = threading.Thread(target=self._read, args=(reading,), name="outlast-pod-log", daemon=True)
        try:
            with os.fdopen(writing, "wb") as output:
                self._container = Container(
                    command,
                    folder=folder,
                    environment=environment,
                    stdout=output,
                    stderr=output,
                    isolated=True,
                    view=View(root, mounts, private=True),
                )
        except (OSError, ValueError):
            os.close(reading)
            raise
        self._reader.start()
        self.start_error = self._container.start_error
        self.identity = f"containerd://{os.urandom(32).hex()}"
        self.handle = open_pidfd(self._container.first_pid) if self._container.first_pid else None
        self.exit_code: int | None = None

    @property
    def ended(self) -> bool:
        """Whether its first process has ended, and with it all others."""
        return self._container.wait(0)[0]

    def terminate(self) -> None:
        """SIGTERM to its first process."""
        self._container.terminate_first()

    def kill(self) -> None:
        """SIGKILL to all of it."""
        self._container.kill()

    def close(self) -> int:
        """Kills what is left, and returns the exit code, once all its output has been kept."""
        if self.exit_code is None:
            self._container.kill()
            self.exit_code = self._container.finish()
            self._container.close()
            self._reader.join(_LAST_LINES_SECONDS)
            self._no_more()
            if self.handle is not None:
                os.close(self.handle)
                self.handle = None
        return self.exit_code

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as output:
            for line in output:
                self._log(line.decode(errors="replace").rstrip("\n"))
