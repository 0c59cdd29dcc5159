"""Processes kept as a platform keeps a container: the first one gets the signal, and all end together."""
