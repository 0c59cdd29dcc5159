"""Names and URL schemes to adapters, imported only when asked for."""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from outlast.disruptions import NoticeSource
from outlast.errors import SettingsError
from outlast.firmware import Firmware, read_firmware
from outlast.items import Queue, Sink
from outlast.ports import Framework, Platform, Store
from outlast.rehearsal_place import refuse_outside
from outlast.urls import masked

if TYPE_CHECKING:  # a job that tells nobody starts without all these names
    from outlast.metering import Exporter, Point

# In the order of detection. Cloud Run and pods of GKE run on machines whose firmware says "Compute Engine", AWS Batch
# also starts pods, and Slurm's nodes may be any of them. Of the kinds of GKE the one with the least grace comes first;
# "local" matches always.
PLATFORMS = {
    "cloud-run": "outlast.platforms.cloud_run:CloudRunPlatform",
    "slurm": "outlast.platforms.slurm:SlurmPlatform",
    "aws-spot": "outlast.platforms.aws_spot:AwsSpotPlatform",
    "gke-spot": "outlast.platforms.pods:gke_spot_pods",
    "gke-tpu": "outlast.platforms.pods:gke_tpu_pods",
    "gke-gpu": "outlast.platforms.pods:gke_gpu_pods",
    "kubernetes": "outlast.platforms.pods:pods",
    "gce-spot": "outlast.platforms.gce_spot:GceSpotPlatform",
    "azure-spot": "outlast.platforms.azure_spot:AzureSpotPlatform",
    "local": "outlast.platforms.local:LocalPlatform",
}
STORES = {
    "file": "outlast.stores.folder:open_folder",
    "gs": "outlast.stores.gcs:open_gcs",
    "s3": "outlast.stores.s3:open_s3",
    "az": "outlast.stores.azure:open_azure",
}
QUEUES = {
    "sqlite": "outlast.queues.sqlite:SqliteQueue",
    "postgresql": "outlast.queues.postgres:PostgresQueue",
    "pubsub": "outlast.queues.pubsub:open_pubsub",
}
BROKERS = ("pubsub",)  # those that hand out, and can have another queue as their ledger
SEVERAL_QUEUES = ("postgresql",)  # databases with room for several queues, each called by ?queue=
# Those of the second kind are given the store of the rest of their URL.
SINKS = {
    "sqlite": "outlast.sinks.sqlite:SqliteSink",
    "postgresql": "outlast.sinks.postgres:PostgresSink",
    "jsonl": "outlast.sinks.jsonl:JsonlSink",
}
SINKS_ON_STORES = {"parquet": "outlast.sinks.parquet:ParquetSink", "": "outlast.sinks.objects:ObjectSink"}
_MEANT = {
    "db": "sqlite:///{}", "sqlite": "sqlite:///{}", "sqlite3": "sqlite:///{}", "jsonl": "jsonl:{}",
    "ndjson": "jsonl:{}", "parquet": "parquet:FOLDER", "csv": "jsonl:FILE", "json": "jsonl:FILE",
}  # fmt: skip
_OTHER_NAMES = {"postgres": "postgresql"}
# What a module needs that plain `pip install outlast` does not bring: the extra's name.
_EXTRAS = {"psycopg": "postgres", "pyarrow": "parquet", "opentelemetry": "otel", "prometheus_client": "prometheus"}
_OTLP, _PROMETHEUS = "outlast.exporters.otlp:OtlpExporter", "outlast.exporters.prometheus:{}"
TIME_LIMIT = "time-limit"  # watched everywhere, where there is one
# Sources of notices, by their names in PlatformFacts.notice_sources; signals (SIG…) need none.
SOURCES = {
    "aws-imds": "outlast.sources.aws_imds:aws_imds_sources",
    "azure-scheduled-events": "outlast.sources.azure_events:azure_events_sources",
    "gce-metadata": "outlast.sources.gce_metadata:gce_metadata_sources",
    "kubernetes-node": "outlast.sources.kubernetes_node:kubernetes_node_sources",
    TIME_LIMIT: "outlast.sources.time_limit:time_limit_sources",
}
# By the module whose presence in the program means that the framework is in use. The order matters: the
# first that owns a value takes it.
FRAMEWORKS = {
    "torch": "outlast.frameworks.torch:TorchFramework",
    "jax": "outlast.frameworks.jax:JaxFramework",
    "numpy": "outlast.frameworks.numpy:NumpyFramework",
}


@cache
def _load(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def platform_named(name: str) -> Platform:
    """The platform of that name, proven or provisional; raises SettingsError for an unknown one."""
    if name not in PLATFORMS:
        proven = proven_platforms()
        raise SettingsError(
            f"platform {name!r} is not known (OUTLAST_PLATFORM, --platform); there are {', '.join(proven)}, "
            f"and provisionally {', '.join(known for known in PLATFORMS if known not in proven)}"
        )
    return cast(Platform, _load(PLATFORMS[name])())


@cache
def proven_platforms() -> tuple[str, ...]:
    """The names to list in help: platforms that have a kill matrix, a real server in the tests and a how-to."""
    return tuple(name for name in PLATFORMS if not platform_named(name).facts.provisional)


def detect_platform(env: Mapping[str, str], firmware: Firmware | None = None) -> Platform:
    """OUTLAST_PLATFORM if set, else the first platform that recognises the environment or the machine's firmware."""
    named = env.get("OUTLAST_PLATFORM", "").strip()
    if named:
        return platform_named(named)
    machine = read_firmware() if firmware is None else firmware
    return next(found for name in PLATFORMS if (found := platform_named(name)).detect(env, machine))


def open_store(url: str) -> Store:
    """The store at a URL or folder; raises SettingsError for a scheme that is not supported."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "file", url
    if scheme not in STORES:
        raise SettingsError(
            f"url={url!r}: no store for {scheme}:// (Job's url, OUTLAST_URL, --url); a folder works, and "
            f"{', '.join(f'{known}://' for known in STORES)}"
        )
    return cast(Store, _load(STORES[scheme])(rest))


def open_queue(url: str) -> Queue:
    """The queue at a URL; raises SettingsError for a scheme that is not supported or an extra that is missing."""
    scheme = url.partition("://")[0]
    scheme = _OTHER_NAMES.get(scheme, scheme)
    if "://" not in url or scheme not in QUEUES:
        raise SettingsError(
            f"queue={masked(url)!r} is no queue's URL; there are sqlite:///work.db, postgresql://HOST/DATABASE and "
            "pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC"
        )
    refuse_outside(url, setting="queue")
    return cast(Queue, _load_for(url, QUEUES[scheme])(url))


def with_ledger(queue: Queue, sink: str) -> Queue:
    """The queue, with the sink's database as its ledger where it has none and can have one.

    Where a database has room for several, the ledger is called after the subscription: no two share one.
    """
    scheme, _, rest = sink.partition("://")
    scheme = _OTHER_NAMES.get(scheme, scheme)
    if queue.traits.counts or scheme not in QUEUES or queue.url.partition("://")[0] not in BROKERS:
        return queue
    place, _, options = rest.partition("?")
    kept = [one for one in options.split("&") if one and not one.startswith("table=")]
    if scheme in SEVERAL_QUEUES and not any(one.startswith("queue=") for one in kept):
        own = queue.url.partition("://")[2].partition("?")[0]
        kept.append(f"queue={quote(own, safe='')}")
    ledger = open_queue(f"{scheme}://{place}{'?' if kept else ''}{'&'.join(kept)}")
    return cast(Queue, _load(QUEUES[queue.url.partition("://")[0]])(queue.url, ledger))


def open_sink(url: str) -> Sink:
    """The sink at a URL; raises SettingsError for a scheme that is not supported or an extra that is missing."""
    scheme, separator, rest = url.partition(":")
    scheme = _OTHER_NAMES.get(scheme, scheme)
    refuse_outside(url, setting="sink")
    if separator and scheme in SINKS:
        return cast(Sink, _load_for(url, SINKS[scheme])(url))
    if separator and scheme == "parquet":
        return cast(Sink, _load_for(url, SINKS_ON_STORES[scheme])(open_store(rest), url=url))
    if separator and "/" not in scheme and not (scheme in STORES and rest.startswith("//")):
        raise SettingsError(
            f"sink={masked(url)!r} is no sink's URL; there are sqlite:///FILE.db?table=TABLE, "
            "postgresql://HOST/DATABASE?table=TABLE, jsonl:FILE, parquet:FOLDER, "
            f"{', '.join(f'{known}://' for known in STORES)} and folders (one with a colon in its name is ./NAME)"
        )
    if separator == "" and (meant := _MEANT.get(url.rpartition(".")[2].lower())):
        raise SettingsError(f"sink={url!r} would be a folder with an object per item; write {meant.format(url)}")
    return cast(Sink, _load_for(url, SINKS_ON_STORES[""])(open_store(url), url=url))


def _load_for(url: str, entry: str) -> Any:
    try:
        return _load(entry)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise SettingsError(f"{masked(url)!r} needs {missing}: pip install 'outlast[{_EXTRAS[missing]}]'") from error


def sources_named(name: str) -> Callable[..., Sequence[NoticeSource]]:
    """What opens the notice sources of that name, given the Surroundings; raises SettingsError for an unknown one."""
    if name not in SOURCES:
        raise SettingsError(f"notice source {name!r} is not known; there are signals (SIG...) and {', '.join(SOURCES)}")
    return cast(Callable[..., Sequence[NoticeSource]], _load(SOURCES[name]))


def frameworks_in_use() -> list[Framework]:
    """The array frameworks that the program has imported; imports none itself."""
    return [framework_named(name) for name in FRAMEWORKS if name in sys.modules]


@cache
def framework_named(name: str) -> Framework:
    """The adapter for a framework the program has imported."""
    return cast(Framework, _load(FRAMEWORKS[name])())


def otlp_exporter() -> "Callable[..., Exporter]":
    """What makes an exporter, given a Subject, the environment and a clock; raises SettingsError without its extra."""
    return cast("Callable[..., Exporter]", _load_for("OTEL_EXPORTER_OTLP_ENDPOINT", _OTLP))


def metrics_port() -> Callable[..., None]:
    """What lets Prometheus ask this process; raises SettingsError without its extra."""
    return cast(Callable[..., None], _load_for("a metrics port", _PROMETHEUS.format("listen")))


def metrics_text() -> "Callable[[Iterable[Point]], str]":
    """What shows numbers as Prometheus reads them; raises SettingsError without its extra."""
    return cast("Callable[[Iterable[Point]], str]", _load_for("outlast metrics", _PROMETHEUS.format("as_text")))
