"""Counters, gauges and histograms by their labels, of which there is a bounded number."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from outlast.metering import Distribution, Metric, Point, label

_MOST_SERIES = 40  # of one metric; what comes after is counted together, so that nobody's words fill a database
_OTHER = "other"


class Series:
    """The numbers of one subject. Not for several threads at once."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = {name: label(value) for name, value in labels.items()}
        self._numbers: dict[Metric, dict[tuple[str, ...], float]] = {}
        self._spread: dict[Metric, tuple[list[int], list[float]]] = {}  # the second: sum, least, most

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        """Counts on."""
        series = self._numbers.setdefault(metric, {})
        key = self._key(series, labels)
        series[key] = series.get(key, 0.0) + value

    def put(self, metric: Metric, value: float, *labels: str) -> None:
        """Sets a gauge."""
        series = self._numbers.setdefault(metric, {})
        series[self._key(series, labels)] = value

    def drop(self, metric: Metric) -> None:
        """There is no such number now."""
        self._numbers.pop(metric, None)

    def note(self, metric: Metric, value: float) -> None:
        """One more value of a histogram; what no clock measures is passed over."""
        if not value >= 0:
            return
        counts, spread = self._spread.setdefault(metric, ([0] * (len(metric.bounds) + 1), [0.0, value, value]))
        counts[bisect_left(metric.bounds, value)] += 1
        spread[:] = spread[0] + value, min(spread[1], value), max(spread[2], value)

    def points(self) -> Iterator[Point]:
        """All of it, as it is now."""
        for metric, series in self._numbers.items():
            for key, value in series.items():
                yield Point(metric, {**self._labels, **dict(zip(metric.labels, key, strict=True))}, value)
        for metric, (counts, spread) in self._spread.items():
            yield Point(metric, self._labels, Distribution(tuple(counts), *spread))

    def _key(self, series: Mapping[tuple[str, ...], float], labels: tuple[str, ...]) -> tuple[str, ...]:
        key = tuple(label(one) for one in labels)
        return key if key in series or len(series) < _MOST_SERIES else (_OTHER,) * len(key)
