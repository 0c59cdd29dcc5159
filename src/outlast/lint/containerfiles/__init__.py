"""Rules for Dockerfiles: what the container's first process is, and whether it hears that it has to stop."""
