"""Doors to monitoring systems: OTLP, which is pushed, and Prometheus, which asks."""
