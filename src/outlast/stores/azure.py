"""az://CONTAINER/FOLDER: checkpoints in Azure Blob Storage."""

import os
from collections.abc import Mapping
from typing import Any

from obstore.store import AzureStore

from outlast.errors import SettingsError
from outlast.stores.objects import BucketStore, Refused, bucket_and_prefix
from outlast.stores.obstores import open_bucket, retry_settings

# What Microsoft's own tools call it, and what the client does.
_VARIABLES = {
    "account_name": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "sas_key": ("AZURE_STORAGE_SAS_TOKEN",),
    "endpoint": ("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_SERVICE_ENDPOINT"),
}
_IN_A_CONNECTION_STRING = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_key",
    "BlobEndpoint": "endpoint",
}


def open_azure(rest: str) -> BucketStore:
    """The store at `az://` + rest; raises SettingsError for a URL or settings that make no sense.

    The account comes from AZURE_STORAGE_CONNECTION_STRING, else from AZURE_STORAGE_ACCOUNT_NAME and its companions.
    Managed and workload identities are found by the client itself.
    """
    container, prefix = bucket_and_prefix("az", rest, bucket="container")
    url = f"az://{rest}"
    settings = _settings(os.environ)
    try:
        opened = open_bucket(
            lambda options: AzureStore(container, client_options=options, retry_config=retry_settings(), **settings),
            url,
            allow_http="use_emulator" in settings or settings.get("endpoint", "").startswith("http://"),
        )
    except Refused as error:
        raise SettingsError(
            f"{error}; set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
        ) from error
    return BucketStore(url, prefix, opened)


def _settings(env: Mapping[str, str]) -> dict[str, Any]:
    connection = env.get("AZURE_STORAGE_CONNECTION_STRING")
    if connection:
        return _of_connection_string(connection)
    found = {}
    for setting, variables in _VARIABLES.items():
        value = next((env[name] for name in variables if env.get(name)), None)
        if value is not None:
            found[setting] = value
    return found


def _of_connection_string(text: str) -> dict[str, Any]:
    fields = {name: value for name, _, value in (field.partition("=") for field in text.split(";") if field)}
    if fields.get("UseDevelopmentStorage") == "true":
        return {"use_emulator": True}
    found = {setting: fields[name] for name, setting in _IN_A_CONNECTION_STRING.items() if fields.get(name)}
    if "endpoint" not in found and "account_name" in found:
        scheme = fields.get("DefaultEndpointsProtocol", "https")
        suffix = fields.get("EndpointSuffix", "core.windows.net")
        found["endpoint"] = f"{scheme}://{found['account_name']}.blob.{suffix}"
    return found
