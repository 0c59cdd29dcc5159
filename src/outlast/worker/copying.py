"""Copying: the results of one sink go to another, of whatever kind, where a worker then finds them."""

from collections.abc import Iterable, Iterator

from outlast.items import Result, Sink

_MOST_RESULTS = 1000  # stored at a time
_MOST_CHARACTERS = 8 << 20


def copy_results(source: Sink, target: Sink) -> int:
    """Stores every result of `source` in `target`, as many at a time as memory surely holds; how many there were.

    Where the target has a result of an id under a later claim, that one stays. To copy again is safe, also after a
    death in the middle. A source without results leaves the target as it is, without even making it. Raises
    SettingsError or SinkUnreachable; what was stored before it stays.
    """
    count = 0
    for piece in _pieces(source.results()):
        if not count:  # the source can be read
            target.prepare()
        target.store(piece)
        count += len(piece)
    return count


def _pieces(results: Iterable[Result]) -> Iterator[list[Result]]:
    piece: list[Result] = []
    held = 0
    for one in results:
        piece.append(one)
        held += len(one.value)
        if len(piece) >= _MOST_RESULTS or held >= _MOST_CHARACTERS:
            yield piece
            piece, held = [], 0
    if piece:
        yield piece
