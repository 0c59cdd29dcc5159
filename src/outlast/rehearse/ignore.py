"""What .gitignore and .outlastignore files name, nested ones too: the deepest file that has a say decides."""

from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

# In the order of precedence within one folder: `!data/` in .outlastignore brings back what git leaves out.
IGNORE_FILES = (".outlastignore", ".gitignore")


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder: (folder, rules) pairs, the one to ask first in front."""

    layers: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def entering(self, folder: Path) -> "IgnoreRules":
        """The rules inside `folder`, whose own ignore files come before those above."""
        own = []
        for name in IGNORE_FILES:
            file = folder / name
            if file.is_file():
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
                own.append((folder, GitIgnoreSpec.from_lines(lines)))
        return IgnoreRules((*own, *self.layers))

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Whether the path is left out; its folder is known not to be."""
        for folder, rules in self.layers:
            name = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
            said = rules.check_file(name).include
            if said is not None:
                return said
        return False
