"""Thin adapters, one file per array framework; each is loaded once the program has imported its package."""
