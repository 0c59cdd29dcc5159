"""`outlast explain`: a lint rule in full."""

import json

import click

from outlast.lint.catalogue import all_rules, families, load_rule
from outlast.lint.rule import Rule
from outlast.lint.telling import explanation, listing


@click.command()
@click.argument("names", metavar="[RULE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def explain(names: tuple[str, ...], as_json: bool) -> None:
    """Tell what each lint RULE looks for, why, what to do, and its source; without one, list them all.

    Exit codes: 0 told; 78 no such rule. Provisional.
    """
    rules = [load_rule(name) for name in names] if names else list(all_rules().values())
    if as_json:
        told = [_plain(one) for one in rules]
        click.echo(json.dumps(told[0] if len(names) == 1 else told, indent=2))
    elif names:
        click.echo("\n\n".join("\n".join(explanation(one)) for one in rules))
    else:
        click.echo("\n".join(listing(families())))


def _plain(rule: Rule) -> dict[str, str]:
    return {
        "rule": rule.id,
        "severity": str(rule.severity),
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
    }
