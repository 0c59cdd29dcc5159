"""Terraform is read as values with places; what only a plan would know is said to be unknown."""

import time
from contextlib import suppress

import pytest

from outlast.lint.reading.hcl import read_terraform
from outlast.lint.source import Unreadable

TEXT = """resource "a" "b" {
  name = "x-${var.y}"
  size = 3
  on   = true
  none = null
  list = ["p", 2]
  map = {
    key : "v"
    "nvidia.com/gpu" = "1"
  }
  one { deep { text = "ä" } }
  many { n = 1 }
  many { n = 2 }
  dynamic "made" {
    for_each = var.all
    content {}
  }
  choice = var.z ? 1 : 2
  script = <<-EOT
    echo ${var.z}
  EOT
}
"""


def test_values_have_their_kinds_and_places() -> None:
    [block] = read_terraform(TEXT).resources("a")
    body = block.body
    assert block.labels == ("a", "b")
    assert body["name"].is_unknown
    assert body["size"].number == 3
    assert body["on"].truth is True
    assert body["none"].is_null
    assert body["list"].texts == ["p", "2"]
    assert body.at("map", "nvidia.com/gpu").text == "1"
    assert body.at("one", "deep", "text").text == "ä"
    assert [one["n"].number for one in body["many"]] == [1, 2]
    assert body["made"].is_unknown
    assert body["choice"].is_unknown
    assert body["script"].text == "    echo ${var.z}\n"
    assert (body["size"].line, body["size"].column, body["size"].key_line) == (3, 10, 3)
    assert not body["nowhere"]["deeper"]


def test_plain_variables_and_locals_of_the_file_are_put_in() -> None:
    text = 'variable "t" {\n  default = "5s"\n}\nlocals {\n  n = 4\n  m = var.u\n}\nx "y" {\n'
    file = read_terraform(f"{text}  a = var.t\n  b = local.n\n  c = local.m\n}}\n")
    body = file.blocks[-1].body
    assert (body["a"].text, body["b"].number, body["c"].is_unknown) == ("5s", 4, True)


@pytest.mark.parametrize("text", ["a {" * 50_000, "a = " + "(" * 50_000, 'a = "' + "%{" * 50_000, "a b c\n" * 30_000])
def test_a_hostile_file_ends_soon(text: str) -> None:
    start = time.process_time()
    with suppress(Unreadable):
        read_terraform(text)
    assert time.process_time() - start < 20


def test_what_is_no_terraform_is_told() -> None:
    with pytest.raises(Unreadable):
        read_terraform("}}}}((((")
