"""Amounts of resources as manifests write them: "500m", "2Gi", "1e3"."""

import re
from decimal import Decimal

_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)(?P<suffix>[KMGTPE]i|[numkMGTPE])?", re.ASCII
)
_FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), None: Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip


def amount(quantity: str) -> Decimal:
    """The number that a quantity stands for. Raises ValueError for what is none, such as "1K" or "much".

    Suffixes: k8s.io/apimachinery pkg/api/resource, 2026-11-30.
    """
    matched = _FORM.fullmatch(quantity)
    if matched is None:
        raise ValueError(f"{quantity!r} is no quantity")
    return Decimal(matched["number"]) * _FACTORS[matched["suffix"]]
