"""Rules for Python programs: how they save, resume and stop, read from their syntax trees."""
