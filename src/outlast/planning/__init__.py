"""What to do when: how often to save, what a notice leaves time for, learned from what earlier attempts took."""
