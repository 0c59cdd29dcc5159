"""One run of the batch part: a contender in a fresh folder, and on a fresh database of the server."""

import importlib
import secrets
from pathlib import Path

from benchmarks.batch.contender import Place, measure_drain
from benchmarks.batch.settings import ITEMS, LOADS, SETTINGS
from benchmarks.figures import LIMITS

_ITEMS, _LOADS, _LOADING_THREADS = 100, 400, 8


def measure_batch(which: str, case: str, scale: float, folder: Path, server: str) -> dict[str, float]:
    """Figures of a case of SETTINGS[which], or of ITEMS or LOADS."""
    from benchmarks.batch import overhead

    if which == ITEMS:
        return overhead.measure_items(folder, max(round(_ITEMS * scale), 10))
    if which == LOADS:
        return overhead.measure_loads(folder, max(round(_LOADS * scale), 32), _LOADING_THREADS)
    setting = SETTINGS[which]
    module, _, name = setting.contenders[case].partition(":")
    contender = getattr(importlib.import_module(f"benchmarks.batch.{module}"), name)
    place = Place(str(folder), _fresh(setting.server, server), setting.chunk)
    figures = measure_drain(contender(place), setting.items_for(case, scale))
    return {f"{key}_by_hand": value for key, value in figures.items()} if case == LIMITS else figures


def _fresh(kind: str | None, server: str) -> str:
    """For PostgreSQL the URL of a new database."""
    if kind != "postgresql":
        return server
    import psycopg

    name = f"bench_{secrets.token_hex(6)}"
    with psycopg.connect(f"postgresql://postgres@{server}/postgres", autocommit=True) as database:
        database.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql://postgres@{server}/{name}"
