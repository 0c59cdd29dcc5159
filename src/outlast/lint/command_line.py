"""A command as a list of words with places, wherever it was found: a script, a YAML list, Terraform's local-exec."""

from dataclasses import dataclass

from outlast.lint.rule import At


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command. `text` is None where a variable or a substitution leaves it open.

    `raw`: as it stands in the source. A word that begins with known text and then is open has that in `prefix`:
    `--image=$IMAGE` has the prefix `--image=`.
    """

    text: str | None
    line: int
    column: int
    raw: str = ""
    prefix: str = ""

    @property
    def start(self) -> str:
        """What is known of how it begins."""
        return self.prefix if self.text is None else self.text


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A simple command: a program and its arguments. `complete` False: words may be missing, as after `"$@"`."""

    words: tuple[Word, ...]
    complete: bool = True

    @property
    def place(self) -> At:
        """Where it begins."""
        return At(self.words[0].line, self.words[0].column)

    @property
    def program(self) -> str | None:
        """The program's name without its folder; None where it is a variable."""
        text = self.words[0].text if self.words else None
        return text.rstrip("/").rpartition("/")[2] if text else None

    @property
    def arguments(self) -> tuple[Word, ...]:
        """All words but the program."""
        return self.words[1:]
