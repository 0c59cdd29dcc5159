"""What is told of the rules: the page in docs, the listing, and the form of their texts."""

import re

import pytest
from click.testing import CliRunner
from rule_page import PAGE, page

from outlast.cli.main import main
from outlast.lint.catalogue import all_rules, families
from outlast.lint.rule import Rule

_RULES = list(all_rules().values())
# A date, a month, or the version of what was read or measured; our own pages have the version of the package.
_DATED = re.compile(r"20\d\d|\d+\.\d+|^outlast, docs/|installed here")


def test_the_page_in_docs_is_what_the_rules_say_now() -> None:
    assert PAGE.read_text() == page(), "docs/lint-rules.md is old: `make rules` writes it anew"


def test_every_rule_is_in_one_family_and_in_the_listing() -> None:
    listed = CliRunner().invoke(main, ["explain"]).output
    assert sorted(one.id for rules in families().values() for one in rules) == sorted(all_rules())
    for rule in _RULES:
        assert re.search(rf"^  {rule.id} +{rule.severity} +{re.escape(rule.title)}$", listed, re.M), rule.id


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.id)
def test_a_rule_says_why_what_to_do_and_when_that_was_true(rule: Rule) -> None:
    assert _DATED.search(rule.source), f"no date or version: {rule.source}"
    assert not rule.title.endswith("."), rule.title
    assert not rule.fix.endswith("."), rule.fix
    assert rule.why.endswith("."), rule.why
