"""What stands for a container image here: a folder of files, and the command that it starts with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.emulate.cloud_run.refusals import Refused
from outlast.emulate.command_line import command_line


@dataclass(frozen=True, slots=True)
class Image:
    """An image's files and its entry point. A container's `command` takes the place of `entry_point` and `arguments`,
    its `args` that of `arguments`, as for a real image. Each attempt finds a fresh copy of `folder`, and starts in it;
    the path that it has there is `working_folder`, if that is given, or the container's `workingDir`.
    """

    folder: Path
    entry_point: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def command_of(self, container: Mapping[str, Any]) -> tuple[str, ...]:
        """What a container of this image runs; empty when nobody says."""
        return command_line(container, entry_point=self.entry_point, arguments=self.arguments)


@dataclass(frozen=True, slots=True)
class Images:
    """The images that can be deployed: those named, and `folder` for any other one whose container has a command."""

    folder: Path
    named: dict[str, Image] = field(default_factory=dict)

    def find(self, container: Mapping[str, Any], at: str) -> Image:
        """The image of a container. Raises Refused when it could not be started."""
        name = container["image"]
        found = self.named.get(name)
        if found is None and not container.get("command"):
            message = f"{at}.image: Image '{name}' not found."
            raise Refused("INVALID_ARGUMENT", message, field=f"{at}.image")
        image = found or Image(self.folder)
        if not image.command_of(container):
            raise Refused("INVALID_ARGUMENT", f"{at}.command: Image '{name}' has no command.", field=f"{at}.command")
        return image

    def add(self, name: str, image: Image) -> None:
        """An image that was built."""
        self.named[name] = image

    def all_folders(self) -> Sequence[Path]:
        return (self.folder, *(image.folder for image in self.named.values()))
