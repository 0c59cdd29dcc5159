"""Cloud Run in shell scripts: gcloud command lines, and manifests in here-documents."""

from collections.abc import Iterator

from outlast.lint.cloud_run.commands import Around, check_script
from outlast.lint.reading.shell import read_shell
from outlast.lint.rule import Finding
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one script."""
    source.read(read_shell)  # one that cannot be read is told as such
    yield from check_script(source.text, Around(source.known))
