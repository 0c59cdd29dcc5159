"""The expert's labels of public files: names and findings only, of rules that there are."""

import json
from pathlib import Path

from outlast.lint.catalogue import all_rules
from outlast.lint.rule import Severity

PUBLIC = Path(__file__).parent / "public"
_KEYS = {"rule", "line", "severity", "sure", "why"}


def test_every_label_is_of_a_named_file_and_of_a_rule_that_there_is() -> None:
    labels = json.loads((PUBLIC / "labels.json").read_text())
    index = json.loads((PUBLIC / "index.json").read_text())
    assert len(labels) >= 150
    assert set(labels) <= {one["file"] for one in index}
    for label in (one for each in labels.values() for one in each):
        assert set(label) == _KEYS
        assert label["rule"] in all_rules(), label
        assert label["severity"] in set(Severity), label
