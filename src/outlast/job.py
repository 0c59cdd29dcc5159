"""The loop users write."""


class Job:
    """Stub until the engine lands."""
