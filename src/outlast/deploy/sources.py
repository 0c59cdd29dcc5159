"""The sources of an image: what is uploaded, and a name for exactly that."""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

from outlast.deploy.record import FOLDER
from outlast.errors import SettingsError
from outlast.rehearse.sandbox import plan_copy

GCLOUDIGNORE = ".gcloudignore"
_ALWAYS = (".git", ".gcloudignore", "__pycache__/", "outlast-checkpoints/", ".venv/", "venv/", f"{FOLDER}/")


def digest_of(source: Path, *extra: str, skip: Collection[str] = ()) -> str:
    """12 letters that change when a file of the source does, or `extra`. What git ignores or `skip` names is no part.

    Raises SettingsError where there is no such folder.
    """
    if not os.path.isdir(source):  # noqa: PTH112 - Path.is_dir raises for a name too long, or hidden from us
        raise SettingsError(f"source {source}: there is no such folder; it is relative to the description's file")
    found = hashlib.sha256()
    plan = plan_copy(source)
    links = [(name, target.encode()) for name, target in plan.links]
    for name, origin in sorted(plan.files):
        if name.parts[0] == FOLDER or str(name) in skip:
            continue
        content = hashlib.sha256()
        with origin.open("rb") as file:
            while chunk := file.read(1 << 20):
                content.update(chunk)
        executable = bool(origin.stat().st_mode & 0o100)
        found.update(f"{name}\0{executable}\0{content.hexdigest()}\0".encode(errors="surrogateescape"))
    for name, to in sorted(links):
        found.update(f"{name}\0->".encode(errors="surrogateescape") + to)
    for one in extra:
        found.update(one.encode())
    return found.hexdigest()[:12]


def upload_rules(source: Path) -> str | None:
    """What `gcloud builds submit` is to leave out, where the source does not say it in a .gcloudignore of its own."""
    if (source / GCLOUDIGNORE).exists():
        return None
    own = source / ".gitignore"
    lines = own.read_text(errors="replace").splitlines() if own.is_file() else []
    return "\n".join([*_ALWAYS, *lines]) + "\n"
