"""How many rows to read at a time, of which nobody knows how large they are, so that memory stays bounded."""

FIRST_ROWS = 100
_MOST_ROWS = 1000
_PAGE_CHARACTERS = 4 << 20


def rows_to_read(last: int, read_characters: int) -> int:
    """How many rows to ask for next, when the last so many had so many characters; at most 1,000."""
    fits = last * _PAGE_CHARACTERS // max(1, read_characters)
    return max(1, min(_MOST_ROWS, last * 2, fits))
