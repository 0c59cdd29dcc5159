"""AWS Batch: how often a job is tried again, and for what."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from outlast.lint.clouds.rules import NO_RETRY
from outlast.lint.command_line import CommandLine, Word
from outlast.lint.reading.hcl import Terraform
from outlast.lint.reading.yaml_nodes import Node, read_yaml
from outlast.lint.rule import INFO, WARNING, At, Finding, Place, Severity
from outlast.lint.source import Unreadable

_RECLAIM = "Host EC2 (instance i-0123456789abcdef0) terminated."


@dataclass(frozen=True, slots=True)
class RetryRule:
    """One of evaluateOnExit. Empty fields match anything; `reason`: onStatusReason."""

    action: str
    reason: str
    others: bool

    @property
    def fits_reclaim(self) -> bool:
        """Whether it is the one for a reclaimed instance; it has a `*` at the end only."""
        if self.others:
            return False
        return self.reason == "" or re.fullmatch(re.escape(self.reason).replace(r"\*", ".*"), _RECLAIM) is not None


@dataclass(frozen=True, slots=True)
class Retries:
    """A job's retry strategy as far as it is known. `attempts` None: not said; `unknown`: somebody else fills it in."""

    place: Place
    attempts: int | None
    rules: tuple[RetryRule, ...]
    unknown: bool = False
    fargate: bool = False


def judge(retries: Retries, name: str) -> Iterator[Finding]:
    """What is wrong with a strategy."""
    if retries.unknown:
        return
    if retries.attempts is None or retries.attempts <= 1:
        said = "1" if retries.attempts == 1 else "unset, and 1 by default"
        yield NO_RETRY.at(retries.place, f"{name}: attempts is {said}: the first reclaimed instance fails the job")
        return
    if retries.fargate:
        return
    message, severity = _about_rules(retries)
    if message:
        yield NO_RETRY.at(retries.place, f"{name}: {message}", severity=severity)


def _about_rules(retries: Retries) -> tuple[str, Severity]:
    if not retries.rules:
        return f"{retries.attempts} attempts without evaluateOnExit are spent on the program's own errors, too", INFO
    leading = next(
        (rule.reason for rule in retries.rules if rule.reason.startswith("*") and len(rule.reason) > 1), None
    )
    if leading is not None:
        return f'onStatusReason "{leading}" matches nothing: a `*` stands at the end only', WARNING
    first = next((rule for rule in retries.rules if rule.fits_reclaim), None)
    if first is not None and first.action != "RETRY":
        return f'the rule for a reclaimed instance ("Host EC2*") is {first.action}: the job fails with it', WARNING
    return "", INFO


# --- where they stand ---


def of_documents(documents: Sequence[Node]) -> Iterator[Finding]:
    """Job definitions in CloudFormation, and as the JSON of `register-job-definition`."""
    for document in documents:
        for name, resource in document["Resources"].fields.items():
            if resource["Type"].text == "AWS::Batch::JobDefinition":
                yield from judge(_of_node(resource["Properties"], resource), f"job definition {name}")
        if "jobDefinitionName" in document and document["type"].text in ("container", "multinode"):
            yield from judge(_of_node(document, document), f"job definition {document['jobDefinitionName'].text}")


def _of_node(properties: Node, place: Node) -> Retries:
    """Field names begin with a capital in CloudFormation, with a small letter in JSON, and are snake_case in HCL."""
    strategy = _any(properties, "RetryStrategy", "retryStrategy", "retry_strategy")
    attempts = _any(strategy, "Attempts", "attempts")
    listed = _any(strategy, "EvaluateOnExit", "evaluateOnExit", "evaluate_on_exit")
    rows = listed.several
    rules = tuple(_rule_of(row) for row in rows)
    platforms = _any(properties, "PlatformCapabilities", "platformCapabilities", "platform_capabilities")
    unknown = strategy.is_unknown or (attempts.is_set and attempts.number is None)
    return Retries(
        _place_of(strategy or properties or place),
        attempts.number,
        rules,
        unknown or listed.is_unknown or any(_is_open(row) for row in rows),
        "FARGATE" in platforms.texts,
    )


def _rule_of(row: Node) -> RetryRule:
    others = ("OnExitCode", "onExitCode", "on_exit_code", "OnReason", "onReason", "on_reason")
    return RetryRule(
        _any(row, "Action", "action").text.upper(),
        _any(row, "OnStatusReason", "onStatusReason", "on_status_reason").text,
        bool(_any(row, *others)),
    )


def _place_of(node: Node) -> At:
    return At(node.key_line or node.line, node.column if not node.key_line or node.key_line == node.line else 1)


def _is_open(row: Node) -> bool:
    return any(value.is_unknown for value in row.fields.values())


def _any(node: Node, *names: str) -> Node:
    return next((node[name] for name in names if node[name]), node[names[0]])


def of_terraform(terraform: Terraform) -> Iterator[Finding]:
    """`aws_batch_job_definition`."""
    for block in terraform.resources("aws_batch_job_definition"):
        name = block.labels[1] if len(block.labels) > 1 else ""
        yield from judge(_of_node(block.body, block.body), f"job definition {name}")


def of_command(command: CommandLine) -> Iterator[Finding]:
    """`aws batch register-job-definition`; what a file holds (`--cli-input-json file://...`) is not looked up."""
    words = command.arguments
    texts = [word.start for word in words]
    if command.program != "aws" or "batch" not in texts[:4] or "register-job-definition" not in texts[:6]:
        return
    if not command.complete or any(text.startswith("--cli-input") for text in texts):
        return
    given = _value(words, "--retry-strategy")
    if given is None:
        yield from judge(Retries(command.place, None, ()), "register-job-definition")
    elif given.text is not None:
        retries = _of_shorthand(given)
        if retries is not None:
            yield from judge(retries, "register-job-definition")


def _value(words: Sequence[Word], option: str) -> Word | None:
    for place, word in enumerate(words):
        if word.text == option and place + 1 < len(words):
            return words[place + 1]
        if word.start.startswith(f"{option}="):
            text = word.text.partition("=")[2] if word.text is not None else None
            return Word(text, word.line, word.column, word.raw)
    return None


def _of_shorthand(word: Word) -> Retries | None:
    """`attempts=3,evaluateOnExit=[{onStatusReason=Host EC2*,action=RETRY},...]`, or the same as JSON."""
    text = (word.text or "").strip()
    place = At(word.line, word.column)
    if text.startswith("{"):
        try:
            documents = read_yaml(text)
        except (Unreadable, yaml.YAMLError):
            return None
        made = _of_node(Node("map", place.line, place.column, fields={"retryStrategy": documents[0]}), documents[0])
        return Retries(place, made.attempts, made.rules, made.unknown)
    attempts = re.search(r"attempts=(\d+)", text)
    rules = []
    for body in re.findall(r"\{([^{}]*)\}", text):
        pairs = {
            key.strip(): value.strip("\"' ") for key, _equals, value in (one.partition("=") for one in body.split(","))
        }
        others = bool({"onExitCode", "onReason"} & set(pairs))
        rules.append(RetryRule(pairs.get("action", "").upper(), pairs.get("onStatusReason", ""), others))
    return Retries(place, int(attempts[1]) if attempts else None, tuple(rules))
