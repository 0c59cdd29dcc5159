"""`outlast explain`: a lint rule in full."""

import json

import click

from outlast.lint.catalogue import all_rules, families, load_rule
from outlast.lint.rule import Rule
from outlast.lint.telling import explanation, listing


@click.command()
@click.argument("rule", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def explain(rule: str | None, as_json: bool) -> None:
    """Tell what a lint RULE looks for, why, what to do, and its source; without one, list them all.

    Exit codes: 0 told; 78 no such rule. Provisional.
    """
    rules = list(all_rules().values()) if rule is None else [load_rule(rule)]
    if as_json:
        told = [_plain(one) for one in rules]
        click.echo(json.dumps(told if rule is None else told[0], indent=2))
    elif rule is None:
        click.echo("\n".join(listing(families())))
    else:
        click.echo("\n".join(explanation(rules[0])))


def _plain(rule: Rule) -> dict[str, str]:
    return {
        "rule": rule.id,
        "severity": str(rule.severity),
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
    }
