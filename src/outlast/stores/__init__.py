"""Places that keep checkpoints, one file each."""
