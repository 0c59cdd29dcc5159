"""Places to run, one file each: detection, identity, notices, grace, exit code, each fact with its source."""
