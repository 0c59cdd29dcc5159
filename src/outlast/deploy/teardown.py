"""Removes what deployments made, by their record and nothing else, the last thing first."""

from collections.abc import Collection
from dataclasses import dataclass

from outlast.deploy.apply import Tell
from outlast.deploy.plan import Made
from outlast.deploy.record import Owned, Record, named
from outlast.deploy.tools import Tools, is_there, listed
from outlast.errors import DeploymentStopped


@dataclass(frozen=True, slots=True)
class Removal:
    """What a teardown came to: names for people, such as "bucket gs://example"."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    failed: tuple[str, ...]


def what_to_remove(record: Record, *, keep: Collection[str] = ()) -> tuple[Owned, ...]:
    """What a teardown would remove, in its order; `keep` are kinds that stay."""
    return tuple(one for one in reversed(record.owned()) if one.made.undo and one.made.kind not in keep)


def tear_down(record: Record, tools: Tools, tell: Tell, *, keep: Collection[str] = ()) -> Removal:
    """Removes it all; a thing that cannot be removed does not keep the others. What is kept stays in the record."""
    removed: list[str] = []
    failed: list[str] = []
    kept = [_name(one) for one in reversed(record.owned()) if not one.made.undo or one.made.kind in keep]
    for one in what_to_remove(record, keep=keep):
        try:
            gone = _remove(one, record, tools, tell)
        except DeploymentStopped as error:
            tell(f"  {_name(one)} stays: {error}")
            failed.append(_name(one))
        else:
            if gone:
                removed.append(_name(one))
            else:
                tell(f"  {_name(one)} was gone already")
    return Removal(tuple(removed), tuple(kept), tuple(failed))


def _remove(one: Owned, record: Record, tools: Tools, tell: Tell) -> bool:
    """Whether there was anything to remove."""
    there = _those_there(one, tools)
    for made in there:
        for command in made.undo:
            tell(f"  $ {command.shown}")
            code = tools.run(command.argv)
            if code != 0 and not command.may_fail:
                raise DeploymentStopped(f"{command.shown} left with {code}")
    record.removed(one.step, one.made)
    return bool(there)


def _those_there(one: Owned, tools: Tools) -> list[Made]:
    """The thing itself, or what was started of it by a deployment that was killed before it could write the names."""
    if one.made.probe is not None:
        return [one.made] if is_there(one.made.probe, tools) else []
    if one.made.listing is None:
        return [one.made]
    names = listed(one.made.listing.argv, tools)
    if one.sure:
        return [one.made] if one.made.name in names else []
    return [named(one.made, name) for name in names if name not in one.before]


def _name(one: Owned) -> str:
    return f"{one.made.kind} {one.made.name}"
