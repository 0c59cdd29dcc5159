"""s3://BUCKET/FOLDER: checkpoints in S3, and in services that speak its language."""

import configparser
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from obstore.store import S3Store

from outlast.errors import SettingsError
from outlast.stores.objects import BucketStore, Refused, bucket_and_prefix
from outlast.stores.obstores import open_bucket, retry_settings

if TYPE_CHECKING:  # a name that exists for type checkers only
    from obstore.store import ClientConfig


def open_s3(rest: str) -> BucketStore:
    """The store at `s3://` + rest; raises SettingsError for a URL or settings that make no sense.

    The client reads AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and the like by itself, and the roles of
    machines and containers; what it does not read is a profile's files.
    """
    bucket, prefix = bucket_and_prefix("s3", rest)
    url = f"s3://{rest}"
    env = os.environ
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or ""
    settings: dict[str, Any] = {**_profile(env)}
    if endpoint:
        settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}

    def make(options: "ClientConfig", **more: Any) -> S3Store:
        return S3Store(bucket, client_options=options, retry_config=retry_settings(), **settings, **more)

    try:
        opened = open_bucket(
            make,
            url,
            allow_http=endpoint.startswith("http://"),
            make_single=lambda options: make(options, disable_bulk_delete=True),
        )
    except Refused as error:
        raise SettingsError(f"{error}; check AWS_ENDPOINT_URL, AWS_REGION and the credentials") from error
    return BucketStore(url, prefix, opened)


def _profile(env: Mapping[str, str]) -> dict[str, str]:
    """Keys and region of AWS_PROFILE, or of the default profile, where the environment does not give them."""
    profile = env.get("AWS_PROFILE") or "default"
    keys = _section(env.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", profile)
    heading = profile if profile == "default" else f"profile {profile}"
    wider = _section(env.get("AWS_CONFIG_FILE") or "~/.aws/config", heading)
    found: dict[str, str] = {}
    if "AWS_ACCESS_KEY_ID" not in env and "aws_access_key_id" in keys and "aws_secret_access_key" in keys:
        found |= {"access_key_id": keys["aws_access_key_id"], "secret_access_key": keys["aws_secret_access_key"]}
        if "aws_session_token" in keys:
            found["session_token"] = keys["aws_session_token"]
    if "region" in wider and not (env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")):
        found["region"] = wider["region"]
    return found


def _section(file: str, name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(os.path.expanduser(file))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from error
    return dict(parser[name]) if parser.has_section(name) else {}
