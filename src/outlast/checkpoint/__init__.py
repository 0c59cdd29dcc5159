"""The checkpoint format: snapshot, write, commit, verify, find the newest good one, retain."""
