"""Makes the Pub/Sub service when it is first needed: its client library takes a third of a second to import.

A keeper has to renew in the ledger before that, and commands that only read the ledger never need it.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from outlast.errors import SettingsError
from outlast.queues.pubsub_address import PubsubAddress

if TYPE_CHECKING:
    from outlast.queues.pubsub_service import PubsubService

_NEEDED = ("google.cloud.pubsub_v1", "grpc_status")


def require_client(address: PubsubAddress) -> None:
    """Raises SettingsError when the client library is not installed; imports nothing of it."""
    for name in _NEEDED:
        if not _is_installed(name):
            raise SettingsError(f"{address.shown} needs {name}: pip install 'outlast[pubsub]'")


def service_of(address: PubsubAddress) -> "PubsubService":
    """The service of a subscription."""
    made: PubsubService = importlib.import_module("outlast.queues.pubsub_service").PubsubService(address)
    return made


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even its parent
        return False
