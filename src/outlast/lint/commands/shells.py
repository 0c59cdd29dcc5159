"""What the shells do with the last command of a text, and which one stands behind `sh` in an image.

Measured 2026-11-30 with bash 5.2.15, dash 0.5.12 and busybox 1.35 (each form under each shell; a test repeats it):
dash forks for every command. bash and busybox ash become the last command of a `-c` text where nothing is left to do
after it; a script in a file is never known to be at its end, so that only a written `exec` helps there.
"""

import re
from enum import StrEnum


class Shell(StrEnum):
    """A shell as the first process."""

    BASH = "bash"
    DASH = "dash"
    BUSYBOX = "busybox ash"
    OTHER = "another shell"  # zsh, ksh: not measured


_BY_NAME = {"bash": Shell.BASH, "rbash": Shell.BASH, "dash": Shell.DASH, "ash": Shell.BUSYBOX}
_OTHERS = {"zsh", "ksh", "mksh", "fish", "tcsh", "csh"}
_AMBIGUOUS = "sh"
# What `sh` is, by the words of an image's name and tag, the first that fits. Alpine's and busybox's is busybox ash;
# Red Hat's family, Amazon's and Arch have bash; Debian's and Ubuntu's is dash (each image's /bin/sh, as of 2026-11).
_SH_BY_IMAGE: tuple[tuple[Shell, re.Pattern[str]], ...] = (
    (Shell.BUSYBOX, re.compile(r"alpine|busybox")),
    (
        Shell.BASH,
        re.compile(
            r"\bubi\d*\b|centos|rocky|alma|fedora|redhat|rhel|amazonlinux|\bamzn|oraclelinux|archlinux|opensuse"
            r"|aws/lambda|\bel[789]\b|wolfi|\bubi[789]"
        ),
    ),
    (
        Shell.DASH,
        re.compile(
            r"debian|ubuntu|bookworm|bullseye|buster|trixie|jammy|focal|noble|bionic|\bslim\b|-slim|pytorch/pytorch"
            r"|tensorflow/tensorflow|nvcr\.io/nvidia|rocm/|deeplearning-platform|huggingface/|continuumio/|condaforge/"
            r"|rayproject/|astral-sh/uv|deepspeed/"
        ),
    ),
)
# Docker's official images of languages are Debian's unless the tag says otherwise.
_DEBIAN_OFFICIAL = re.compile(
    r"^(?:docker\.io/)?(?:library/)?(?:python|node|ruby|perl|golang|rust|openjdk|julia|gcc|php|buildpack-deps|r-base)"
    r"(?::[\w.-]*)?$"
)


def shell_named(program: str) -> Shell | None:
    """The shell that a program's name means; None for `sh`, which depends on the image, and for what is no shell."""
    return _BY_NAME.get(program, Shell.OTHER if program in _OTHERS else None)


def is_shell(program: str | None) -> bool:
    """Whether a program is a shell."""
    return program is not None and (program == _AMBIGUOUS or shell_named(program) is not None)


def sh_of_image(image: str | None) -> Shell | None:
    """What `sh` is in an image, by its name; None where the name does not tell."""
    if not image:
        return None
    name = image.lower().partition("@")[0]
    for shell, words in _SH_BY_IMAGE:
        if words.search(name):
            return shell
    if _DEBIAN_OFFICIAL.match(name):
        return Shell.DASH
    # CUDA's images are Ubuntu's unless the tag names Red Hat's, which stands above.
    return Shell.DASH if re.search(r"nvidia/cuda", name) else None
