"""A rule of these tests' own, broken by every `bad: true` of a YAML file."""

from collections.abc import Iterator

from outlast.lint import catalogue
from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.rule import ERROR, Finding, Rule
from outlast.lint.source import Kind, Source

RULE = Rule("T001", ERROR, "a bad thing", "it is bad", "make it good", "these tests")
RULES = (RULE,)


def check(source: Source) -> Iterator[Finding]:
    """A finding for each value that says true under the key `bad`."""
    for document in source.read(read_yaml):
        for node in document.walk():
            if node.key == "bad" and node.truth:
                yield RULE.at(node, f"{node.key} is {node.text}")


def only_this_rule() -> dict[Kind, tuple[str, ...]]:
    """The checks of a catalogue that has this rule only."""
    return {**dict.fromkeys(Kind, ()), Kind.YAML: ("one_rule",)}


MODULES = (*catalogue._RULES[:1], "one_rule")
