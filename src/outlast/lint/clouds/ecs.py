"""ECS on Spot instances: whether the agent is told to drain when the notice comes."""

import re
from collections.abc import Iterator, Sequence

from outlast.lint.clouds.rules import NOT_DRAINED
from outlast.lint.reading.hcl import Terraform
from outlast.lint.reading.statements import Script
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Finding

_SETS_CLUSTER = re.compile(r"\bECS_CLUSTER\b")
_DRAINS = re.compile(r"ECS_ENABLE_SPOT_INSTANCE_DRAINING[\"']?\s*[=:]\s*[\"']?true")
_SPOT = re.compile(r"\bspot\b", re.IGNORECASE)
_FIELDS = ("UserData", "user_data", "user_data_base64")


def of_documents(documents: Sequence[Node]) -> Iterator[Finding]:
    """CloudFormation: launch templates, launch configurations, instances."""
    for document in documents:
        resources = document["Resources"]
        if _is_spot(resources):
            for resource in resources.fields.values():
                if resource["Type"].text.startswith(("AWS::EC2::", "AWS::AutoScaling::")):
                    yield from _of_user_data(resource["Properties"])


def of_terraform(terraform: Terraform) -> Iterator[Finding]:
    """`aws_launch_template`, `aws_launch_configuration`, `aws_instance`, `aws_spot_instance_request`."""
    bodies = [block.body for block in terraform.blocks if block.kind == "resource"]
    spot = any(_is_spot(body) for body in bodies) or any(True for _ in terraform.resources("aws_spot_fleet_request"))
    for block in terraform.blocks:
        kind = block.labels[0] if block.kind == "resource" and block.labels else ""
        if kind == "aws_spot_instance_request" or (spot and kind.startswith("aws_")):
            yield from _of_user_data(block.body)


def _is_spot(node: Node) -> bool:
    """Whether a part asks for Spot: a price, a market, a purchase option, a capacity provider."""
    for one in node.walk():
        if one.kind == "map":
            for name, value in one.fields.items():
                key = name.replace("_", "").lower()
                if key in ("spotprice", "spotoptions", "spotallocationstrategy", "spotmaxprice", "spotinstancepools"):
                    return True
                if key == "markettype" and value.text.lower() == "spot":
                    return True
                if key == "ondemandpercentageabovebasecapacity" and value.number is not None and value.number < 100:
                    return True
    return False


def _of_user_data(node: Node) -> Iterator[Finding]:
    for one in node.walk():
        if one.kind != "map":
            continue
        for name in _FIELDS:
            data = one[name]
            text = "\n".join(part.text for part in data.walk() if part.kind == "scalar")
            if _SETS_CLUSTER.search(text) and not _DRAINS.search(text):
                yield NOT_DRAINED.at(data, "the agent's settings name the cluster, and no Spot draining")


def of_script(script: Script, text: str) -> Iterator[Finding]:
    """A start script of an instance: only where it speaks of Spot itself."""
    if not _SPOT.search(text) or _DRAINS.search(text):
        return
    for statement, command in script.commands():
        words = " ".join(word.start for word in command.words)
        bodies = " ".join(heredoc.text for heredoc in statement.heredocs)
        into_settings = any("ecs.config" in one.target.start for one in statement.redirects)
        if into_settings and re.search(r"\bECS_CLUSTER=", f"{words} {bodies}"):
            yield NOT_DRAINED.at(statement, "the agent's settings name the cluster, and no Spot draining")
            return
