"""The container: its image is there, and its first process lets SIGTERM through."""

import json
from pathlib import Path

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.entry_points import Judged, judge
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, parsed, rows, text_at, value_at
from outlast.deploy.doctor.troubles import is_not_there, trouble
from outlast.emulate.cloud_run.dockerfiles import read_start
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
    """SIGTERM reaches the program."""
    described = case.described
    if described.source is not None:
        return [_of_source(case, case.folder / described.source)]
    if described.command or described.batch is not None:
        return [_told(judge(described.full_command), described.shown_command)]
    return [_of_image(case, described.image or "")]


def _of_source(case: Case, folder: Path) -> Finding:
    file = folder / "Dockerfile"
    if not file.exists():
        return ok(ENTRY_POINT, f"`outlast deploy` writes the Dockerfile of {folder}, with {_HEARING}")
    try:
        start = read_start(read_text(file, most_bytes=_MOST_BYTES))
    except (OSError, ValueError) as error:
        return unknown(ENTRY_POINT, f"{file} cannot be read: {error}", command("outlast", "lint", str(file)))
    # A command in the description takes the place of CMD, as it does in a manifest.
    arguments = case.described.full_command or start.arguments
    argv = (*start.entry_point, *arguments) if start.entry_point else arguments
    return _told(judge(argv), f"{file}: {' '.join(argv)}", lint=str(file))


def _of_image(case: Case, name: str) -> Finding:
    if not case.programs.found("docker"):
        return unknown(ENTRY_POINT, f"how {name} starts is in the image, and docker, which could tell, is not here")
    said = parsed(case.programs.ask("docker", "image", "inspect", name), rows)
    if isinstance(said, Answer):
        pull = command("docker", "pull", name)
        return unknown(ENTRY_POINT, f"{name} is not on this machine, so how it starts is not known", pull)
    config = value_at(said[0], "Config") if said else None
    entry, arguments = value_at(config, "Entrypoint"), value_at(config, "Cmd")
    parts = [one for one in (entry, arguments) if isinstance(one, list)]
    argv = [str(word) for part in parts for word in part]
    return _told(judge(argv), f"{name} starts as {json.dumps(argv)}")


def _told(judged: Judged, where: str, *, lint: str | None = None) -> Finding:
    mend = command("outlast", "lint", lint) if lint else None
    if judged.verdict == "hears":
        return ok(ENTRY_POINT, f"{where}: {judged.why}")
    words = f"{where}: {judged.why}; start it by `outlast run --`"
    if judged.verdict == "deaf":
        return bad(ENTRY_POINT, words, mend or "outlast run -- CMD")
    return unknown(ENTRY_POINT, words, mend)
