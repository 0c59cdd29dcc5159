"""The scripts that an image starts, where they stand beside the Dockerfile or in it."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from outlast.lint.reading.containerfile import Containerfile

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Scripts:
    """Finds a script by the path that it has in the image: by COPY and ADD, else by its name alone."""

    file: Containerfile
    folder: Path

    def find(self, path: str) -> str | None:
        """The text of a script; None where it is not there, or is no text."""
        name = PurePosixPath(path).name
        if not name:
            return None
        for stage in self.file.stages:
            for one in stage.instructions:
                if one.name not in ("COPY", "ADD") or (one.words is None and not one.text):
                    continue
                parts = [word.text or "" for word in one.words or ()] or one.text.split()
                parts = [part for part in parts if not part.startswith("--")]
                if one.heredocs and parts and PurePosixPath(parts[-1]).name == name:
                    return one.heredocs[0][1]
                found = self._copied(parts, name)
                if found is not None:
                    return found
        return self._read(name)

    def _copied(self, parts: list[str], name: str) -> str | None:
        sources, target = parts[:-1], parts[-1] if parts else ""
        for source in sources:
            if PurePosixPath(source).name == name or (len(sources) == 1 and PurePosixPath(target).name == name):
                found = self._read(source)
                if found is not None:
                    return found
        return None

    def _read(self, name: str) -> str | None:
        """A file below the Dockerfile's folder, never above it."""
        where = self.folder / name.lstrip("/")
        try:
            inside = where.resolve().is_relative_to(self.folder.resolve())
            if not inside or not where.is_file() or where.stat().st_size > _MOST_BYTES:
                return None
            return where.read_bytes().decode()
        except (OSError, ValueError):
            return None
