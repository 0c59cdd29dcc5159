"""Readers: one file per language, each a real parser of it, with places."""
