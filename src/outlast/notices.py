"""Every warning of the end, merged into one with a deadline."""
