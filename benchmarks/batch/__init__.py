"""The batch part of `make bench`: queues, workers and sinks beside their peers and beside loops by hand."""
