"""URLs as people may see them."""

import re

# In options, also of a URL that is itself an option and therefore quoted.
_SECRET = re.compile(r"((?:^|&|\?|%26|%3F)(?:ssl)?password(?:=|%3D)).*?(?=&|%26|$)", re.IGNORECASE)


def masked(url: str) -> str:
    """The URL without its passwords, for people to read."""
    scheme, separator, rest = url.partition("://")
    before, at, after = rest.rpartition("@")  # a password that is not percent-encoded may have any character
    if at and ":" in before:
        before = before.partition(":")[0] + ":***"
    place, mark, query = (before + at + after).partition("?")
    options = _SECRET.sub(r"\1***", query)
    return f"{scheme}{separator}{place}{mark}{options}"
