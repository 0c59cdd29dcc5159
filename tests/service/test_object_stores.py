"""What only networks and services do to gs://, s3:// and az://: lost answers, broken connections, refusals."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from outlast.errors import CheckpointCorrupt, ObjectExists, SettingsError, StoreUnreachable
from outlast.ports import BulkStore, Store
from service import servers
from service.flaky import FlakyProxy

SCHEMES = ["gs", "s3", "az"]
MIB = 1 << 20
SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxy(scheme: str) -> Iterator[FlakyProxy]:
    proxy = FlakyProxy()
    if scheme == "gs":
        proxy.upstream_port = servers.gcs_server_behind(proxy.address)
    else:
        server = servers.s3_server() if scheme == "s3" else servers.azure_server()
        proxy.upstream_port = urlsplit(server).port or 0
    yield proxy
    proxy.close()


@pytest.fixture
def store(scheme: str, proxy: FlakyProxy) -> Store:
    """A store that is reached through the proxy."""
    return servers.store_at(servers.fresh_url(scheme), **through(scheme, proxy.address))


def through(scheme: str, address: str) -> dict[str, str]:
    """The variables of a test's server, reached at another address."""
    found = servers.environment_of(scheme)
    for name in ("STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT"):
        if name in found:
            found[name] = address + urlsplit(found[name]).path
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience of two seconds instead of twenty; stores that are made after this."""
    for setting in (
        "objects.RETRY_SECONDS",
        "obstores.RETRY_SECONDS",
        "gcs.REQUEST_SECONDS",
        "obstores.REQUEST_SECONDS",
    ):
        monkeypatch.setattr(f"outlast.stores.{setting}", 2.0)


def content(size: int) -> bytes:
    block = secrets.token_bytes(MIB)
    return block * (size // MIB)


def read_all(store: Store, name: str) -> bytes:
    with store.open(name) as opened:
        target = bytearray(opened.bytes)
        opened.read_into(0, memoryview(target))
    return bytes(target)


# --- what it costs ----------------------------------------------------------------------------------


def test_many_objects_are_removed_by_few_requests_where_the_service_can(
    store: Store, proxy: FlakyProxy, scheme: str
) -> None:
    names = [f"parts/{number}" for number in range(30)]
    for name in names:
        store.create(name, b"a part")
    store.create("other/1", b"stays")
    assert isinstance(store, BulkStore)
    proxy.requests.clear()
    store.delete_all(names)
    few = 30 if scheme == "gs" else 1
    assert few <= len(proxy.requests) <= few + 2, proxy.requests  # one may be repeated
    store.create("parts/7", b"again")
    store.delete_all(["parts/6", "parts/7", "parts/8"])  # of which two are gone
    store.delete_all([])
    assert [one.name for one in store.list("")] == ["other/1"]


@pytest.mark.parametrize("scheme", ["s3"], indirect=True)
def test_a_service_that_removes_one_object_at_a_time_is_asked_so(
    impatient: None, proxy: FlakyProxy, scheme: str
) -> None:
    store = servers.store_at(servers.fresh_url(scheme), **through(scheme, proxy.address))
    names = [f"parts/{number}" for number in range(5)]
    for name in names:
        store.create(name, b"a part")
    assert isinstance(store, BulkStore)
    proxy.not_implemented = "POST "
    store.delete_all(names[:3])
    begun = time.monotonic()
    store.delete_all(["parts/0", *names[3:]])  # it is known by now
    assert time.monotonic() - begun < 1.0
    assert not store.list("")


# --- lost answers and broken connections ------------------------------------------------------------


def test_a_create_whose_answer_is_lost_has_succeeded_and_is_ours(store: Store, proxy: FlakyProxy) -> None:
    store.create("warm", b"up")
    proxy.lose_answers_times = 1
    store.create("claims/0", b"token 1")
    assert proxy.cuts == 1
    assert store.read("claims/0") == b"token 1"
    with pytest.raises(ObjectExists):
        store.create("claims/0", b"token 2")


def test_an_upload_goes_on_where_its_connection_broke(store: Store, proxy: FlakyProxy) -> None:
    data = content(64 * MIB)
    proxy.cut_requests_after, proxy.cut_requests_times = 10 * MIB, 2
    assert store.write("data/large", [data[:5000], data[5000:]]) == len(data)
    assert proxy.cuts == 2
    assert proxy.bytes_up < len(data) + 33 * MIB  # at most the two parts that were cut went twice
    assert read_all(store, "data/large") == data


def test_a_range_goes_on_where_its_connection_broke(store: Store, proxy: FlakyProxy) -> None:
    data = content(24 * MIB)
    store.write("data/large", [data])
    proxy.cut_answers_after, proxy.cut_answers_times = 5 * MIB, 2
    assert read_all(store, "data/large") == data
    assert proxy.cuts == 2


def test_a_short_outage_is_waited_for(store: Store, proxy: FlakyProxy) -> None:
    store.create("a", b"1")
    proxy.is_down = True
    threading.Timer(1.5, lambda: setattr(proxy, "is_down", False)).start()
    store.create("b", b"2")
    assert [entry.name for entry in store.list("")] == ["a", "b"]


def test_a_long_outage_is_a_storage_out_of_reach_and_its_end_is_seen(
    impatient: None, scheme: str, proxy: FlakyProxy
) -> None:
    store = servers.store_at(servers.fresh_url(scheme), **through(scheme, proxy.address))
    proxy.is_down = True
    for use in (
        lambda: store.create("a", b"1"),
        lambda: store.write("b", [b"1"]),
        lambda: store.list(""),
        lambda: store.read("a"),
    ):
        with pytest.raises(StoreUnreachable) as unreachable:
            use()
        assert store.url in str(unreachable.value)
    proxy.is_down = False
    store.create("a", b"1")
    assert store.read("a") == b"1"


def test_a_server_that_never_answers_is_given_up(impatient: None, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = servers.store_at(servers.fresh_url(scheme), **through(scheme, address))
        began = time.monotonic()
        with pytest.raises(StoreUnreachable):
            store.create("a", b"1")
        assert time.monotonic() - began < 10


# --- nothing is left --------------------------------------------------------------------------------


class GivenUp(Exception):
    pass


def test_an_upload_that_is_given_up_in_the_middle_leaves_nothing(scheme: str) -> None:
    store = servers.fresh_store(scheme)
    told: list[int] = []

    def pace(size: int) -> None:
        told.append(size)
        if len(told) == 3:
            raise GivenUp

    with pytest.raises(GivenUp):
        store.write("data/large", [content(64 * MIB)], pace=pace)
    assert store.list("") == []
    assert unfinished_uploads(scheme, store.url) == 0


def unfinished_uploads(scheme: str, url: str) -> int:
    """Uploads in parts that S3 still keeps below a store; the other services do not list them."""
    if scheme != "s3":
        return 0
    with urllib.request.urlopen(f"{servers.s3_server()}/{servers.BUCKET}?uploads", timeout=10) as answer:
        names = re.findall(r"<Key>([^<]*)</Key>", answer.read().decode())
    below = url.partition(f"{servers.BUCKET}/")[2]
    return sum(name.startswith(below) for name in names)


_WRITER = """
import os, sys, time
from outlast.registry import open_store
def pace(size):
    print("part", flush=True)
    time.sleep(0.3)
open_store(sys.argv[1]).write("data/large", [bytes(80 << 20)], pace=pace)
"""


def test_a_writer_that_is_killed_leaves_no_object(scheme: str) -> None:
    url, variables = servers.fresh_url(scheme), servers.environment_of(scheme)
    env = {**os.environ, **variables, "PYTHONPATH": str(SRC)}
    with subprocess.Popen([sys.executable, "-c", _WRITER, url], env=env, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(3):
            assert writer.stdout.readline() == b"part\n"
        writer.send_signal(signal.SIGKILL)
    assert servers.store_at(url, **variables).list("") == []


# --- what needs a human -----------------------------------------------------------------------------


def test_a_bucket_that_is_not_there_is_a_wrong_setting(scheme: str) -> None:
    url = f"{scheme}://no-such-bucket-here/run"
    for use in (
        lambda store: store.create("a", b"1"),
        lambda store: store.write("a", [bytes(17 * MIB)]),
        lambda store: store.list(""),
        lambda store: store.read("a"),
    ):
        with pytest.raises(SettingsError) as refused:
            use(servers.store_at(url, **servers.environment_of(scheme)))
        assert refused.value.exit_code == 78
        assert url in str(refused.value)
        assert "bucket" in str(refused.value)


def test_a_key_that_is_not_accepted_is_a_wrong_setting() -> None:
    variables = servers.environment_of("az") | {"AZURE_STORAGE_ACCOUNT_KEY": "AAAA" + servers.AZURE_KEY[4:]}
    with pytest.raises(SettingsError, match="credentials"):
        servers.store_at(servers.fresh_url("az"), **variables).create("a", b"1")


def test_a_refusal_after_it_has_worked_is_worth_a_retry(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.stores import objects

    store = servers.fresh_store(scheme)
    store.create("a", b"1")

    def refuse(*_: object) -> int:
        raise objects.Refused("the rights were taken away")

    monkeypatch.setattr(type(store._bucket), "size", refuse)  # type: ignore[attr-defined]  # inside on purpose
    with pytest.raises(StoreUnreachable, match="taken away"):
        store.read("a")


@pytest.mark.parametrize("url", ["gs://", "s3:///folder", "az://", "gs://bucket/../x", "s3://b/a//b", "gs://a?b/c"])
def test_a_url_that_makes_no_sense_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        servers.store_at(url, AZURE_STORAGE_ACCOUNT_NAME="a")
    assert url in str(refused.value)


def test_azure_without_an_account_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match="AZURE_STORAGE_CONNECTION_STRING"):
        servers.store_at("az://container/x")


def test_azure_takes_a_connection_string() -> None:
    endpoint = servers.azure_server()
    text = f"AccountName={servers.AZURE_ACCOUNT};AccountKey={servers.AZURE_KEY};BlobEndpoint={endpoint};"
    store = servers.store_at(servers.fresh_url("az"), AZURE_STORAGE_CONNECTION_STRING=text)
    store.create("a", b"1")
    assert store.read("a") == b"1"


def test_s3_takes_a_profile_from_its_files(tmp_path: Path) -> None:
    keys, wider = tmp_path / "credentials", tmp_path / "config"
    keys.write_text("[mine]\naws_access_key_id = test\naws_secret_access_key = test\n")
    wider.write_text("[profile mine]\nregion = eu-west-1\n")
    store = servers.store_at(
        servers.fresh_url("s3"),
        AWS_ENDPOINT_URL=servers.s3_server(),
        AWS_PROFILE="mine",
        AWS_SHARED_CREDENTIALS_FILE=str(keys),
        AWS_CONFIG_FILE=str(wider),
    )
    store.create("a", b"1")
    assert store.read("a") == b"1"


# --- listings and journals --------------------------------------------------------------------------


def test_a_listing_of_several_pages_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.stores.gcs._PAGE_OBJECTS", 3)
    store = servers.fresh_store("gs")
    names = [f"x/{number}" for number in range(8)]
    for name in names:
        store.create(name, b"1")
    assert [entry.name for entry in store.list("x")] == names


def test_two_appenders_of_one_journal_lose_nothing_and_one_delete_removes_all(scheme: str) -> None:
    url, variables = servers.fresh_url(scheme), servers.environment_of(scheme)
    one, two = servers.store_at(url, **variables), servers.store_at(url, **variables)
    for number in range(3):
        one.append("journal", b"one %d\n" % number)
        two.append("journal", b"two %d\n" % number)
    assert one.read("journal").splitlines() == [b"%s %d" % (who, n) for n in range(3) for who in (b"one", b"two")]
    assert [(entry.name, entry.bytes) for entry in two.list("")] == [("journal", 36)]
    two.delete("journal")
    assert one.list("") == []


def test_the_inner_names_of_journals_are_nobody_elses(scheme: str) -> None:
    store = servers.fresh_store(scheme)
    store.append("journal", b"line\n")
    with pytest.raises(CheckpointCorrupt):
        store.create("journal.segments~/0", b"forged")
