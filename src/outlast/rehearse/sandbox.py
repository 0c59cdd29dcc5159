"""The fresh copy of the folder that a rehearsal runs in: what goes in, what stays out, how it is copied."""

import errno
import fcntl
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from outlast.pages.document import is_a_page
from outlast.rehearse.ignore import IgnoreRules

PRIVATE_FOLDER = ".outlast-rehearsal"  # ours, inside the copy: the store of the rehearsal
_STORE_MARK = "outlast-store.json"  # at the root of every store
_LEFT_OUT_NAMES = {".git", "__pycache__", "outlast-checkpoints", PRIVATE_FOLDER}
_REPORT_STEM = "outlast-report"
_FICLONE = 0x40049409  # ioctl_ficlone(2): share the extents; works within one filesystem that can
_NO_REFLINK = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY}


@dataclass(slots=True)
class CopyPlan:
    """What a copy of `source` holds, decided once and made several times. Paths are relative to `source`."""

    source: Path
    folders: list[Path] = field(default_factory=list)
    files: list[tuple[Path, Path]] = field(default_factory=list)  # (name in the copy, where it is now)
    links: list[tuple[Path, str]] = field(default_factory=list)  # (name in the copy, target)
    bytes: int = 0
    ignored: list[str] = field(default_factory=list)  # left out because an ignore file names it


def plan_copy(source: Path) -> CopyPlan:
    """Looks through the folder; copies nothing yet."""
    plan = CopyPlan(source.resolve())
    _plan_folder(plan, plan.source, Path(), IgnoreRules(), (plan.source,))
    return plan


def make_copy(plan: CopyPlan, target: Path) -> None:
    """Copies into `target`, a new folder. Raises OSError, say when the disk is full."""
    target.mkdir(parents=True)
    for name in plan.folders:
        (target / name).mkdir()
    copier = _Copier()
    for name, origin in plan.files:
        copier.copy(origin, target / name)
    for name, link in plan.links:
        (target / name).symlink_to(link)
    for name in reversed(plan.folders):  # last, since filling a folder changes its times
        shutil.copystat(plan.source / name, target / name)


def _plan_folder(plan: CopyPlan, folder: Path, name: Path, rules: IgnoreRules, above: tuple[Path, ...]) -> None:
    rules = rules.entering(folder)
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        path, inside = Path(entry.path), name / entry.name
        is_folder = _is_folder(entry)
        if is_left_out(path, is_folder=is_folder):
            continue
        if rules.ignores(path, is_folder=is_folder and not entry.is_symlink()):
            plan.ignored.append(inside.as_posix() + ("/" if is_folder else ""))
        elif entry.is_symlink() and _keep_as_link(plan, path, inside):
            continue
        elif is_folder:
            real = path.resolve()
            if real in above:
                continue  # a link that leads back to a folder it stands in would never end
            plan.folders.append(inside)
            _plan_folder(plan, path, inside, rules, (*above, real))
        else:
            _plan_file(plan, path, inside)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Not so a link that leads in a circle."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def _plan_file(plan: CopyPlan, path: Path, inside: Path) -> None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return  # a socket or fifo belongs to a program that runs now
    plan.files.append((inside, path))
    plan.bytes += status.st_size


def is_left_out(path: Path, *, is_folder: bool) -> bool:
    """Whether something is no part of a program's work: repositories, environments, stores, reports."""
    if path.name in _LEFT_OUT_NAMES or path.stem == _REPORT_STEM:
        return True
    if not is_folder:
        return is_a_page(path)
    return any((path / mark).is_file() for mark in ("pyvenv.cfg", _STORE_MARK))


def _keep_as_link(plan: CopyPlan, path: Path, inside: Path) -> bool:
    """Keeps a link that stays inside, relative so that it cannot lead back to the original, or leads nowhere.

    What a link brings in from outside is copied: the program may write through it.
    """
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle, which was a RuntimeError before Python 3.13
        target = Path(os.path.normpath(path.parent / path.readlink()))
    if target.exists() and not target.is_relative_to(plan.source):
        return False
    if target.is_relative_to(plan.source):
        here = (plan.source / inside).parent
        plan.links.append((inside, os.path.relpath(target, here)))
    else:
        plan.links.append((inside, str(path.readlink())))
    return True


class _Copier:
    """Copies files by reflink until the filesystem says that it cannot."""

    def __init__(self) -> None:
        self._reflinks = True

    def copy(self, origin: Path, target: Path) -> None:
        if not (self._reflinks and self._reflink(origin, target)):
            shutil.copyfile(origin, target)
        shutil.copystat(origin, target)

    def _reflink(self, origin: Path, target: Path) -> bool:
        with origin.open("rb") as source, target.open("wb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
            except OSError as error:
                if error.errno not in _NO_REFLINK:
                    raise
                self._reflinks = False
        return self._reflinks
