"""Amounts of resources as manifests write them: "500m", "2Gi", "1e3"."""

from decimal import Decimal

_FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip


def amount(quantity: str) -> Decimal:
    """The number that a quantity stands for; ValueError-like (decimal.InvalidOperation) for what is none."""
    text = quantity.strip()
    for length in (2, 1):
        if len(text) > length and text[-length:] in _FACTORS:
            return Decimal(text[:-length]) * _FACTORS[text[-length:]]
    return Decimal(text)
