"""Callbacks for frameworks that have a loop of their own; each module imports its framework, and nobody imports it."""
