"""Working through a queue: publish, lease, compute, store, acknowledge, and give back what does not fit any more."""
