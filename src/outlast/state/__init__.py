"""A user's state as a tree of plain nodes plus raw leaves, and back into place."""
