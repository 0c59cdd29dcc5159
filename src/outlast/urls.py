"""URLs as people may see them."""


def masked(url: str) -> str:
    """The URL without its passwords, for people to read."""
    scheme, _, rest = url.partition("://")
    before, at, after = rest.rpartition("@")  # a password that is not percent-encoded may have any character
    if at and ":" in before:
        before = before.partition(":")[0] + ":***"
    place, mark, query = (before + at + after).partition("?")
    kept = ["password=***" if pair.lower().startswith("password") else pair for pair in query.split("&")]
    kept = ["sslpassword=***" if pair.lower().startswith("sslpassword") else pair for pair in kept]
    return f"{scheme}://{place}{mark}{'&'.join(kept)}"
