"""How often to save, and what to keep."""
