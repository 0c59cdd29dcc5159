"""Rehearsals: runs any command under a platform's real interruptions and compares what comes out."""
