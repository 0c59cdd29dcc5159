"""One file per outside system that keeps results."""
