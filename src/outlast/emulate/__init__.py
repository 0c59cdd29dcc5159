"""Platforms on loopback: their documented procedures, spoken as their own tools and clients expect it."""
