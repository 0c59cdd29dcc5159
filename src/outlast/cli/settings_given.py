"""The settings of a description that a command line gives: by options of their own, and by --set KEY=VALUE."""

from collections.abc import Mapping, Sequence

import click

from outlast.deploy.description_file import Argument


def settings_given(settings: Sequence[str], options: Mapping[str, Argument | None]) -> dict[str, Argument]:
    """Settings by their key; `options` are those with an option of their own, None where it was not given."""
    given = {key: said for key, said in options.items() if said is not None}
    for one in settings:
        key, equals, value = one.partition("=")
        if not equals:
            raise click.BadParameter(f"{one!r} is not KEY=VALUE", param_hint="--set")
        given[key] = value
    return given
