"""Results as objects or files of their own, one per item: in a folder, a mounted bucket, gs://, s3:// or az://."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from outlast.errors import (
    CheckpointCorrupt,
    ObjectExists,
    ObjectMissing,
    SettingsError,
    SinkUnreachable,
    StoreUnreachable,
)
from outlast.items import LeasedItem, Result, SinkTraits, Stored, one_per_id
from outlast.ports import Store
from outlast.sinks.result_lines import Head, NoJson, NoRecord, head_of, line_of, result_of
from outlast.threads import in_parallel

_SAFE = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]{0,98}[a-z0-9_-])?")
_SHOWN_LETTERS = 60
_FORMAT_NAME, _FORMAT = "outlast-sink", b'{"format": 1}\n'
_VERSIONS = "versions"
_OBJECT = re.compile(r"[0-9a-f]{2}/(?P<id>[^/@]+)(?P<version>@[^/@]+)?\.json")
_END, _REPLACES = b"}\n", b', "replaces": '  # how an object's content ends
_FOLDERS = tuple(f"{number:02x}" for number in range(256))
_READ_AT_A_TIME = 64


@dataclass(frozen=True, slots=True)
class _Kept:
    """A result as it is stored. `rank`: the highest of an id is its result."""

    name: str
    line: bytes
    head: Head
    rank: tuple[int, int, str]

    @property
    def replaced(self) -> int:
        return self.rank[1]


class ObjectSink:
    """A folder or a bucket's prefix as an items.Sink, for thousands of results: each is a small JSON object.

    The name is ``HH/ID.json``, or ``HH/ID@VERSION.json`` where there is a version; HH are two digits of a digest of
    the id. An id or version of more than 100 characters, or with others than ``a-z 0-9 . _ -``, is shown as far as
    these go, with a digest behind ``=``: so ids that differ in case only are apart on every disk, and none leads out
    of the folder. The content is ``{"id", "value", "version", "claim"}`` with the id as it is.

    Objects are only created, never changed. One of the same name means that the item is done at this version: the
    first writer wins, whichever claim it has. A result of another version is created beside the old one, which is
    removed afterwards, so that a kill never leaves an id without a result that it had; until somebody looks at the id
    again there may be two objects then. Of two the one with the higher claim counts, of equal claims the one that
    was made to replace the other (``"replaces"`` in the content): for `known`, for `results`, and for `store`, each
    of which sees the names of all versions that were ever stored here under ``versions/``. An object that a killed
    mount left empty or cut is no result, and is replaced.

    Requests go out as many at a time as the store likes. The values are JSON; no bytes, no files.
    """

    def __init__(self, store: Store, *, url: str) -> None:
        self._store, self._url = store, url
        self._announced: set[str] = set()

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> SinkTraits:
        return SinkTraits(few=True)

    @property
    def database(self) -> None:
        return None

    def prepare(self) -> None:
        """Makes a first object, so that a place that cannot be written is found out before anything is computed."""
        with self._translating():
            try:
                self._store.create(_FORMAT_NAME, _FORMAT)
            except ObjectExists:
                return

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        with self._translating():
            versions = self._versions()
            found: dict[str, Stored] = {}

            def look(name: str) -> None:
                kept = self._settled(name, versions)
                if kept is not None:
                    found[name] = Stored(kept.head.version, kept.head.claim)

            if versions:
                self._all(partial(look, item.id) for item in items)
        return found

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        newest = one_per_id(results)
        with self._translating():
            for version in {_tag(result.version) for result in newest.values()} - self._announced:
                self._announce(version)
            versions = self._versions()
            self._all(partial(self._put, result, versions) for result in newest.values())
            later = self._versions()
            if newest and not later <= versions:  # somebody stores another version at the same time
                self._all(partial(self._settled, name, later) for name in newest)

    def results(self) -> Iterator[Result]:
        # To list a folder costs a disk little and a bucket a request; a folder may hold much else beside the results.
        found = False
        for folder in _FOLDERS if self._store.traits.local else ("",):
            for result in self._results_in(folder):
                found = True
                yield result
        if not found:
            self._must_be_sink()

    def _must_be_sink(self) -> None:
        """Raises SettingsError for a place that `prepare` has never seen."""
        with self._translating(), suppress(ObjectMissing):
            self._store.read(_FORMAT_NAME)
            return
        raise SettingsError(
            f"sink={self._url!r}: nobody has stored results there, so there is nothing to read; is the place right?"
        )

    def _results_in(self, folder: str) -> Iterator[Result]:
        with self._translating():
            listed = self._store.list(folder)
        names: dict[str, list[str]] = {}
        for stored in listed:
            if match := _OBJECT.fullmatch(stored.name):
                names.setdefault(f"{stored.name[:3]}{match['id']}", []).append(stored.name)
        groups = list(names.values())
        for first in range(0, len(groups), _READ_AT_A_TIME):
            best: list[_Kept | None] = [None] * min(_READ_AT_A_TIME, len(groups) - first)

            def read(number: int, some: Sequence[str], best: list[_Kept | None] = best) -> None:
                best[number] = _best(self._kept(some))

            with self._translating():
                self._all(partial(read, *one) for one in enumerate(groups[first : first + _READ_AT_A_TIME]))
            yield from (result_of(one.line, one.head) for one in best if one is not None)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _announce(self, version: str) -> None:
        """Before the first object of a version, so that whoever stores another one knows where to look."""
        with suppress(ObjectExists):  # announced before, by whomever
            self._store.create(f"{_VERSIONS}/{version}.version", b"")
        self._announced.add(version)

    def _versions(self) -> frozenset[str]:
        listed = self._store.list(_VERSIONS)
        return frozenset(one.name.removeprefix(f"{_VERSIONS}/").removesuffix(".version") for one in listed)

    def _put(self, result: Result, versions: Collection[str]) -> None:
        name = _name(result.id, _tag(result.version))
        if len(versions) <= 1:
            self._create(name, result, 0)
            return
        there = self._settled(result.id, versions)
        if there is None:
            self._create(name, result, 0)
        elif there.name == name or there.head.claim > result.claim:
            return
        else:
            self._create(name, result, there.replaced + 1 if there.head.claim == result.claim else 0)
        self._settled(result.id, versions)

    def _create(self, name: str, result: Result, replaces: int) -> None:
        data = line_of(result)
        if replaces:
            data = data.removesuffix(_END) + b"%b%d" % (_REPLACES, replaces) + _END
        try:
            self._store.create(name, data)
        except ObjectExists:
            if not self._kept([name], of=result.id):  # a kill left it cut
                self._store.delete(name)
                self._store.create(name, data)

    def _settled(self, name: str, versions: Iterable[str]) -> _Kept | None:
        """The result of an id, after those that it replaces have been removed."""
        kept = self._kept([_name(name, version) for version in versions], of=name)
        best = _best(kept)
        for one in kept:
            if one is not best:
                self._store.delete(one.name)
        return best

    def _kept(self, names: Iterable[str], *, of: str | None = None) -> list[_Kept]:
        """The whole results among these objects; raises SettingsError for one of another id than `of`."""
        kept = []
        for name in names:
            try:
                data = self._store.read(name)
                head = head_of(data)
            except (ObjectMissing, NoJson, NoRecord):
                continue
            if of not in (None, head.id):
                raise SettingsError(f"sink={self._url!r}: {name} holds {head.id!r}, and should hold {of!r}")
            line, mark, count = data.removesuffix(_END).rpartition(_REPLACES)
            if mark and count.isdigit():
                kept.append(_Kept(name, line + _END, head, (head.claim, int(count), name)))
            else:
                kept.append(_Kept(name, data, head, (head.claim, 0, name)))
        return kept

    def _all(self, jobs: Iterable[Callable[[], object]]) -> None:
        in_parallel((partial(_run, job) for job in jobs), threads=self._store.traits.parallel)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (StoreUnreachable, ObjectExists) as error:
            raise SinkUnreachable(f"sink={self._url!r}: {error}") from error
        except CheckpointCorrupt as error:
            raise SettingsError(f"sink={self._url!r}: {error}") from error


def _run(job: Callable[[], object]) -> None:
    job()


def _best(kept: Sequence[_Kept]) -> _Kept | None:
    return max(kept, key=lambda one: one.rank, default=None)


def _name(name: str, tag: str) -> str:
    """The object of an id and a version's tag."""
    folder = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:2]
    return f"{folder}/{_safe(name)}{tag if tag != '@' else ''}.json"


def _tag(version: str | None) -> str:
    """A version in a name; "@" for none."""
    return "@" if version is None else f"@{_safe(version)}"


def _safe(text: str) -> str:
    """A part of a name that is this text's alone, in letters that every disk and bucket keeps apart."""
    if _SAFE.fullmatch(text):
        return text
    shown = re.sub(r"[^a-z0-9._-]", "_", text[:_SHOWN_LETTERS].lower())
    return f"{shown.lstrip('.')}={hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:32]}"
