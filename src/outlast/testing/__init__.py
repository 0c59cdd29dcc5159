"""Fakes for tests of code that uses outlast: a clock that only moves when told; a store, a queue, a sink in memory."""

from outlast.testing.clocks import FakeClock
from outlast.testing.queues import MemoryQueue, MemorySink
from outlast.testing.stores import MemoryStore

__all__ = ["FakeClock", "MemoryQueue", "MemorySink", "MemoryStore"]
