"""The Dockerfile of a described job: process 1 hears SIGTERM, and hands it on."""

import hashlib
import json
import re
from pathlib import Path

from outlast.deploy.description import Description

DOCKERFILE = "Dockerfile"
_HEAD = re.compile(r"# Written by `outlast deploy` \(([0-9a-f]{8})\); yours to change\.")
_OUTLAST = re.compile(r"outlast(?![\w-])")
FOLDER = "/app"
REQUIREMENTS = "requirements.txt"


def requirements_of(described: Description, source: Path) -> str | None:
    """The requirements that are installed: those described; with no packages either, the source's own file."""
    if described.requirements is None and not described.packages and (source / REQUIREMENTS).is_file():
        return REQUIREMENTS
    return described.requirements


def dockerfile(described: Description, requirements: str | None = None) -> str:
    """The text. `outlast run` is process 1: it hears before the program has loaded, and needs no shell."""
    lines = [f"FROM python:{described.python}-slim", "ENV PYTHONUNBUFFERED=1"]
    if described.hardware.gpu is not None:
        # Cloud Run puts the driver's libraries there (Container runtime contract, 2026-04-08).
        lines.append("ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64")
    lines.append(f"WORKDIR {FOLDER}")
    if requirements is not None:
        name = json.dumps(requirements)
        lines += [f"COPY [{name}, {json.dumps('/tmp/requirements.txt')}]"]  # noqa: S108 - a path of the image, where nobody else is
        lines += ["RUN pip install --no-cache-dir -r /tmp/requirements.txt"]
    packages = described.packages
    if not any(_OUTLAST.match(one.strip()) for one in packages):
        packages = (*packages, "outlast")
    lines.append(f"RUN {json.dumps(['pip', 'install', '--no-cache-dir', *packages])}")
    lines.append("COPY . .")
    lines.append(f"ENTRYPOINT {json.dumps(['outlast', 'run', '--'])}")
    lines.append(f"CMD {json.dumps(list(described.full_command))}")
    text = "\n".join(lines) + "\n"
    return f"# Written by `outlast deploy` ({_digest(text)}); yours to change.\n{text}"


def is_ours(text: str) -> bool:
    """Whether a Dockerfile was written here and nobody has changed it since."""
    head, _, rest = text.partition("\n")
    found = _HEAD.fullmatch(head)
    return found is not None and found[1] == _digest(rest)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
