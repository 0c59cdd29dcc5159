"""Names and URL schemes lead to adapters that exist, and to nothing else."""

import importlib
import subprocess
import sys

import pytest

from outlast import registry
from outlast.errors import SettingsError

_ENTRIES = {**registry.PLATFORMS, **registry.STORES, **registry.FRAMEWORKS}


@pytest.mark.parametrize("entry", _ENTRIES.values(), ids=list(_ENTRIES))
def test_every_entry_names_a_class_or_a_function_that_exists(entry: str) -> None:
    module, _, name = entry.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("name", sorted(registry.PLATFORMS))
def test_a_platform_is_listed_under_its_own_name(name: str) -> None:
    assert registry.platform_named(name).facts.name == name


def test_local_is_last_since_it_matches_always() -> None:
    assert list(registry.PLATFORMS)[-1] == "local"


@pytest.mark.parametrize("url", ["ftp://host/x", "gopher://x", "://x"])
def test_a_scheme_that_is_not_supported_is_refused_with_the_url(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        registry.open_store(url)
    assert url in str(refused.value)


def test_asking_for_the_frameworks_in_use_imports_none() -> None:
    code = (
        "import sys; from outlast.registry import frameworks_in_use; assert frameworks_in_use() == [];"
        "assert not {'numpy', 'torch', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
