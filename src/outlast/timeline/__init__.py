"""Attempts in time: what a rehearsal saw, or journals tell, as one drawing."""
