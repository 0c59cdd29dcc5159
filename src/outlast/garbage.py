"""Python's garbage collector at rest while thousands of lasting objects are made: it would look at all, often."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_REST_OBJECTS = 5_000_000  # garbage may come to that many objects meanwhile, and to no more


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Next to no automatic collection within; afterwards as before. Where it is off already, it stays off.

    A collection looks at every object that is new, or at all there are: half the time of a restore of 20,000 tensors.
    Afterwards it looks once at what is new: so much of it would soon set a collection of everything going.
    """
    usual = gc.get_threshold()
    if not 0 < usual[0] < _REST_OBJECTS:
        yield
        return
    gc.set_threshold(_REST_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        if gc.get_count()[0] > usual[0]:
            gc.collect(0)
        gc.set_threshold(*usual)
