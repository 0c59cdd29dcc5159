"""Cloud Run in shell scripts: gcloud command lines, and manifests in here-documents."""

from collections.abc import Iterator

from outlast.lint.cloud_run.commands import Around, check_script, speaks_of_cloud_run
from outlast.lint.reading.shell import read_shell
from outlast.lint.rule import Finding
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one script."""
    script = source.read(read_shell)  # one that cannot be read is told as such
    if speaks_of_cloud_run(source.text):
        yield from check_script(script, Around(source.known))
