"""Amounts as Kubernetes writes them: "500m", "2Gi", "1e3"."""

from decimal import Decimal

_FACTORS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
}  # fmt: skip


def amount(text: str) -> Decimal:
    """The number that a quantity stands for. Raises decimal.InvalidOperation for what is none."""
    for suffix, factor in _FACTORS.items():
        if text.endswith(suffix):
            return Decimal(text[: -len(suffix)]) * factor
    return Decimal(text)
