"""Signs of life: how often a job that writes nothing else says that it is still there, and how far it is."""

_FIRST_SECONDS = {True: 1.0, False: 30.0}  # where a line is cheap, and where it is a request to a bucket
_LAST_SECONDS = 600.0
_SHARE_OF_AGE = 0.02


def silence_seconds(age_seconds: float, *, cheap: bool) -> float:
    """How long a journal may stay silent before the next sign of life: a fiftieth of the attempt's age, at least 1 s on
    a local disk and 30 s on a bucket, at most 10 min.

    So a week takes some 1,300 signs, and what is known of an attempt that was killed is off by 2 % of its age at most,
    or by the least.
    """
    return min(max(_FIRST_SECONDS[cheap], _SHARE_OF_AGE * age_seconds), _LAST_SECONDS)


def longest_silence_seconds(age_seconds: float) -> float:
    """After how long a silence nobody should expect another sign: the next one may have been under way."""
    return 2 * silence_seconds(age_seconds, cheap=False)
