"""The container: its image is there, and its first process lets SIGTERM through."""

import json
from collections.abc import Sequence
from pathlib import Path

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.entry_points import Judged, entry_of, judge
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, parsed, rows, text_at, value_at
from outlast.deploy.doctor.troubles import is_not_there, trouble
from outlast.lint.containerfiles.scripts import Scripts
from outlast.lint.containerfiles.starting import find_start
from outlast.lint.reading.containerfile import read_containerfile
from outlast.lint.source import Unreadable
from outlast.yaml_keys import read_text

ENTRY_POINT = "entry point"
_MOST_BYTES = 1024 * 1024
_HEARING = 'ENTRYPOINT ["outlast", "run", "--"]'
_IN_GOOGLE = ("-docker.pkg.dev/", "gcr.io/")


def image(case: Case) -> Findings:
    """The image is in its registry, or will be built."""
    check, name = "image", case.described.image
    if case.described.source is not None:
        return [_source(check, case)]
    if name is None:
        return []
    if not any(part in name for part in _IN_GOOGLE):
        return [_elsewhere(check, case, name)]
    said = case.object_of("gcloud", "artifacts", "docker", "images", "describe", name)
    if not isinstance(said, Answer):
        digest = text_at(said, "image_summary", "digest")
        return [ok(check, f"{name} is there{f', {digest}' if digest else ''}")]
    if is_not_there(said):
        return [bad(check, f"there is no image {name}", command("gcloud", "builds", "submit", "--tag", name, "."))]
    return [trouble(check, said, ask="artifactregistry.dockerimages.get (roles/artifactregistry.reader)")]


def _source(check: str, case: Case) -> Finding:
    folder = case.folder / (case.described.source or ".")
    if not folder.is_dir():
        return bad(check, f"its source {folder} is no folder", command("mkdir", "-p", str(folder)))
    return ok(check, f"it will be built from {folder}")


def _elsewhere(check: str, case: Case, name: str) -> Finding:
    """A registry that Google does not run, asked through docker, if that is here."""
    if not case.programs.found("docker"):
        return unknown(check, f"{name} is in a registry that only docker can ask, which is not here")
    said = case.programs.ask("docker", "manifest", "inspect", name)
    if said.failure is None:
        return ok(check, f"{name} is there")
    if is_not_there(said) or "no such manifest" in said.error:
        return bad(check, f"there is no image {name}", command("docker", "push", name))
    return trouble(check, said)


def entry_point(case: Case) -> Findings:
    """SIGTERM reaches the program: as `deploy` starts it, and as the image does, where that can be seen."""
    described = case.described
    if described.source is not None:
        return [_of_source(case, case.folder / described.source)]
    return [_of_image(case, described.image or "")]


def _deployed(case: Case) -> str:
    return f"`outlast deploy` starts it as `outlast run -- {case.described.shown_command}`"


def _of_source(case: Case, folder: Path) -> Finding:
    """A Dockerfile of one's own is used as it is."""
    file = folder / "Dockerfile"
    if not file.exists():
        return ok(ENTRY_POINT, f"`outlast deploy` writes the Dockerfile of {folder}, with {_HEARING}")
    try:
        text = read_text(file, most_bytes=_MOST_BYTES)
        container = read_containerfile(text)
    except (OSError, Unreadable) as error:
        return unknown(ENTRY_POINT, f"{file} cannot be read: {error}", command("outlast", "lint", str(file)))
    if "outlast" not in text:
        why = f"{_deployed(case)}, and nothing in {file} installs outlast by name: without it no attempt would start"
        return unknown(ENTRY_POINT, why, "RUN pip install --no-cache-dir outlast")
    start = find_start(container)
    if start is None:
        return unknown(ENTRY_POINT, f"{file} starts what the image that it stands on says", _HEARING)
    entry = start.entry(container, Scripts(container, folder))
    return _told(case, judge(entry), f"{file} starts {_shown([word.raw for word in start.words])}", lint=str(file))


def _of_image(case: Case, name: str) -> Finding:
    """An image that is on this machine tells how it starts."""
    said = parsed(case.programs.ask("docker", "image", "inspect", name), rows)
    config = value_at(said[0], "Config") if not isinstance(said, Answer) and said else None
    if config is None:
        return ok(ENTRY_POINT, f"{_deployed(case)}; outlast has to be in {name}, which is not on this machine")
    parts = [one for one in (value_at(config, "Entrypoint"), value_at(config, "Cmd")) if isinstance(one, list)]
    argv = [str(word) for part in parts for word in part]
    return _told(case, judge(entry_of(argv, image=name)), f"{name} starts {_shown(argv)}")


def _shown(argv: Sequence[str]) -> str:
    """As a Dockerfile would say it."""
    return json.dumps(list(argv))


def _told(case: Case, judged: Judged, where: str, *, lint: str | None = None) -> Finding:
    """A manifest of `deploy` says `outlast run` itself; whatever else starts the image gets what the image says."""
    if judged.verdict == "hears":
        return ok(ENTRY_POINT, f"{_deployed(case)}; {where}: {judged.why}")
    words = f"{where}: {judged.why}. {_deployed(case)}, but other ways to start the image do not"
    mend = command("outlast", "lint", lint) if lint else _HEARING
    return bad(ENTRY_POINT, words, mend) if judged.verdict == "deaf" else unknown(ENTRY_POINT, words, mend)
