"""Amounts of CPU and memory as manifests write them: "1000m", "512Mi"."""

import re

_FACTORS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30


def cpus(text: str) -> float | None:
    """CPUs; None for what is no amount of them."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", text)
    return None if match is None else float(match[1]) / (1000 if match[2] else 1)


def memory_bytes(text: str) -> int | None:
    """Bytes; None for what is no amount of memory."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?", text)
    return None if match is None else int(float(match[1]) * _FACTORS.get(match[2], 1))
