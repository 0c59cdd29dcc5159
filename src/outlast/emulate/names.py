"""Names that a platform makes: those that Kubernetes, and Cloud Run after it, end in five letters drawn by chance.

Source: k8s.io/apimachinery util/rand, 2026-11-30.
"""

import secrets

SUFFIX_LETTERS = 5
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, and nothing that looks alike


def random_suffix() -> str:
    """Five letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(SUFFIX_LETTERS))
