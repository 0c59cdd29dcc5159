"""The metadata servers of three clouds, which announce that a machine will be taken back."""
