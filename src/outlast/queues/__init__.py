"""One file per outside system that hands out items."""
