"""Numbers for a Prometheus that asks, by prometheus_client; needs the extra `prometheus`."""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from outlast.errors import SettingsError
from outlast.metering import Distribution, Metric, Point

_LOOPBACK, _MOST_PORT = "127.0.0.1", 65535
Read = Callable[[], Sequence[Point]]


def label_name(name: str) -> str:
    """A label's name for Prometheus."""
    return name.replace(".", "_")


def families(points: Iterable[Point]) -> Iterator[Family]:
    """Points as prometheus_client has them, by metric."""
    by_metric: dict[Metric, list[Point]] = {}
    for point in points:
        by_metric.setdefault(point.metric, []).append(point)
    for metric, series in by_metric.items():
        names = sorted({name for point in series for name in point.labels})
        shown = [label_name(name) for name in names]
        values = [[point.labels.get(name, "") for name in names] for point in series]
        if metric.kind == "histogram":
            yield _histogram(metric, series, shown, values)
            continue
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = kind(metric.prometheus_name.removesuffix("_total"), metric.help, labels=shown)
        for point, row in zip(series, values, strict=True):
            assert not isinstance(point.value, Distribution)
            family.add_metric(row, point.value)
        yield family


def _histogram(metric: Metric, series: Sequence[Point], names: Sequence[str], values: list[list[str]]) -> Family:
    family = HistogramMetricFamily(metric.prometheus_name, metric.help, labels=names)
    for point, row in zip(series, values, strict=True):
        spread, so_far, buckets = point.value, 0, []
        assert isinstance(spread, Distribution)
        for bound, count in zip([*map(str, metric.bounds), "+Inf"], spread.counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        family.add_metric(row, buckets, spread.total)
    return family


class PointsCollector(Collector):
    """Hands the numbers of several readers on: those of each job or worker that this process has had."""

    def __init__(self) -> None:
        self.readers: list[Read] = []

    def collect(self) -> Iterator[Family]:
        """See prometheus_client."""
        return families([point for read in self.readers for point in read()])


def as_text(points: Iterable[Point]) -> str:
    """The numbers as Prometheus reads them."""
    collector = PointsCollector()
    collector.readers.append(lambda: list(points))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()


_collectors: dict[tuple[str, int], PointsCollector] = {}
_listening = threading.Lock()


def listen(at: str, read: Read, *, setting: str, warn: Callable[[str], None]) -> None:
    """Answers at ADDRESS:PORT, or at a PORT of loopback, from now on; what cannot be is said by `warn`.

    Raises SettingsError for what is no port.
    """
    address, port = parse_address(at, setting=setting)
    with _listening:
        collector = _collectors.get((address, port))
        if collector is not None:
            collector.readers.append(read)
            return
        collector = PointsCollector()
        collector.readers.append(read)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        try:
            start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            why = "another process has it" if error.errno == errno.EADDRINUSE else str(error)
            warn(f"{setting}={at!r}: nothing answers there: {why}")
            return
        _collectors[address, port] = collector


def parse_address(at: str, *, setting: str) -> tuple[str, int]:
    """ADDRESS:PORT, [ADDRESS]:PORT or PORT, which is on loopback. Raises SettingsError."""
    address, separator, port = at.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _MOST_PORT or (separator and not address):
        raise SettingsError(f"{setting}={at!r} is no address; write PORT (for this machine alone) or 0.0.0.0:PORT")
    return address.strip("[]") or _LOOPBACK, int(port)
