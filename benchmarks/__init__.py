"""The benchmarks of `make bench`: outlast beside its peers and the limits of the machine; see docs/benchmarks.md."""
