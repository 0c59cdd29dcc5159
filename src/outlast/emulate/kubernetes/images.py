"""Container images as this machine has them: a folder, and a command that runs in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.emulate.command_line import command_line

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """What an image's name stands for.

    `entry_point` and `arguments` are those of the image (ENTRYPOINT and CMD), `environment` its variables (ENV), and
    `working_folder` is where it starts (WORKDIR), which every container has for itself: what it writes there is lost.
    """

    entry_point: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_folder: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=dict)

    def command_of(self, container: Json) -> tuple[str, ...]:
        """What a container of this image runs."""
        return command_line(container, entry_point=self.entry_point, arguments=self.arguments)


class ImageMissing(Exception):
    """The container gives no command, and its image's name stands for nothing here."""


def find_image(container: Json, images: Mapping[str, Image]) -> Image:
    """What a container's image stands for; one with a command may have any. Raises ImageMissing."""
    name = container.get("image", "")
    found = images.get(name)
    if found is None and not container.get("command"):
        raise ImageMissing(f'Failed to pull image "{name}": the emulator has no such image, and no command is given')
    return found or Image()
