"""Publishing: rows become items, those that cannot be kept are told, and the rest goes on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from outlast.items import Draft, Queue
from outlast.worker.values import NotJson, payload_text

_BATCH_BYTES = 8 << 20
_ANOTHER = "there is another payload under this id, which stays"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an input. `line` is where it stood, from 1 on; `why`: its reader rejects it, for that reason."""

    id: object
    payload: object
    line: int | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was not published. `id` is None where it has none, `line` where it stood in no file."""

    id: str | None
    line: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """What became of rows: `new` were published, `already` were there with the same payload, `rejected` were not."""

    new: int
    already: int
    rejected: tuple[Rejected, ...]


def publish_rows(queue: Queue, rows: Iterable[Row]) -> Published:
    """Publishes rows as they come, in batches.

    One bad row rejects itself alone. To publish the same again is safe, also after a death in the middle. Another
    payload under an id that is there is rejected, and the first one stays. Raises QueueUnreachable; what was published
    before it stays.
    """
    batch = _Batch(queue)
    for row in rows:
        batch.add(row)
    batch.send()
    return Published(batch.new, batch.already, tuple(batch.rejected))


_Entry = tuple[str, int | None]  # a payload, and the line that it stood on


@dataclass
class _Batch:
    queue: Queue
    new: int = 0
    already: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    held: int = 0
    bytes: int = 0
    by_id: dict[str, list[_Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traits = self.queue.traits

    def add(self, row: Row) -> None:
        name = row.id if isinstance(row.id, str) and row.id else None
        why = row.why or _why_no_id(row.id)
        text = ""
        if why is None:
            try:
                text = payload_text(row.payload)
            except NotJson as error:
                why = str(error)
        most = self.traits.most_payload_bytes
        if why is None and len(text) > most:  # JSON text is ASCII here
            why = f"the payload has {len(text)} bytes, and {most} are allowed; publish where it is instead"
        if why is not None or name is None:
            self.rejected.append(Rejected(name, row.line, why or "no id"))
        else:
            self.by_id.setdefault(name, []).append((text, row.line))
            self.held += 1
            self.bytes += len(text)
        if self.held >= self.traits.publish_batch or self.bytes >= _BATCH_BYTES:
            self.send()

    def send(self) -> None:
        """Publishes one payload for each id at a time, so that what the queue says of an id is about one line."""
        self.held, self.bytes = 0, 0
        while self.by_id:
            accepted = self.queue.publish([Draft(name, entries[0][0]) for name, entries in self.by_id.items()])
            self.new += accepted.new
            self.already += accepted.already
            why = dict.fromkeys(accepted.conflicting, _ANOTHER) | dict(accepted.refused)
            undecided = [self._repeats(name, entries, why.get(name)) for name, entries in self.by_id.items()]
            self.by_id = {name: left for name, left in zip(self.by_id, undecided, strict=True) if left}

    def _repeats(self, name: str, entries: list[_Entry], why: str | None) -> list[_Entry]:
        """Settles what is known now that the first of an id's payloads was rejected, or (None) is there.

        Returns what is not.
        """
        first = entries[0][0]
        if why is None:
            self.already += sum(text == first for text, _ in entries[1:])
            self.rejected += [Rejected(name, line, _ANOTHER) for text, line in entries if text != first]
            return []
        self.rejected += [Rejected(name, line, why) for text, line in entries if text == first]
        return [(text, line) for text, line in entries if text != first]


def _why_no_id(name: object) -> str | None:
    """Why something is no item's id; None where it is one."""
    if name is None or name == "":
        return "no id"
    if not isinstance(name, str):
        return f"the id is {type(name).__name__}, not text"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "the id is no Unicode text: it has half a surrogate pair"
    return None
