"""The place of the checkpoints: it is there, it is near, and one can write to it; the last by really doing so."""

import secrets
from contextlib import suppress
from pathlib import Path

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, text_at, value_at
from outlast.deploy.doctor.troubles import is_not_there, trouble
from outlast.errors import OutlastError, StoreUnreachable
from outlast.registry import open_store

WRITE = "store write"
_LOGIN_OF_CLIENTS = {
    "gs": "gcloud auth application-default login",
    "s3": "aws sts get-caller-identity",
    "az": "az login",
}
# Cloud Storage, "Bucket locations" (2026-11-29): places that hold several regions, by the start of the regions' names.
_MULTI_REGIONS = {"us": "us-", "eu": "europe-", "asia": "asia-"}
_TWO_REGIONS = {
    "nam4": ("us-central1", "us-east1"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "asia1": ("asia-northeast1", "asia-northeast2"),
}


def bucket(case: Case) -> Findings:
    """The bucket is there, in the region of the job."""
    check, name, region = "bucket", case.described.bucket, case.described.region
    if name is None:
        return []
    said = case.object_of("gcloud", "storage", "buckets", "describe", f"gs://{name}")
    if isinstance(said, Answer):
        return [_no_bucket(check, case, name, said)]
    location = (text_at(said, "location") or "").lower()
    if not location or region is None:
        return [
            ok(check, f"gs://{name} is there{f', in {location}' if location else ''}; the job's region is not told")
        ]
    return [_placed(check, case, name, location, value_at(said, "data_locations") or _custom_places(said))]


def _no_bucket(check: str, case: Case, name: str, said: Answer) -> Finding:
    if not is_not_there(said):
        return trouble(check, said, ask="storage.buckets.get (roles/storage.legacyBucketReader)")
    return bad(check, f"there is no bucket gs://{name}; `outlast deploy` makes it too", _make(case, name))


def _make(case: Case, name: str) -> str:
    project = ("--project", case.project) if case.project else ()
    location = case.described.region or "REGION"
    words = ("storage", "buckets", "create", f"gs://{name}", "--location", location, "--uniform-bucket-level-access")
    return command("gcloud", *words, *project)


def _custom_places(said: object) -> object:
    return value_at(said, "custom_placement_config", "dataLocations")


def _placed(check: str, case: Case, name: str, location: str, places: object) -> Finding:
    region = case.described.region or ""
    named = [str(one).lower() for one in places] if isinstance(places, list) else []
    if location == region:
        return ok(check, f"gs://{name} is in {region}, as the job is")
    if region in (*named, *_TWO_REGIONS.get(location, ())):
        return ok(check, f"gs://{name} is in {location}, of which {region} is one region")
    if region.startswith(_MULTI_REGIONS.get(location, "-")):
        why = f"gs://{name} is spread over {location}, around {region}: a save may take longer than in the region alone"
        return unknown(check, why)
    why = f"gs://{name} is in {location} and the job in {region}: slow saves, and traffic between regions is billed"
    return bad(check, f"{why}. Take a new bucket, and name it in `url`", _make(case, f"{name}-{region}"))


def write(case: Case) -> Findings:
    """An object is written, read, listed and deleted where the checkpoints go, by the code that saves them."""
    url = case.described.url
    return [] if url is None else [try_store(url, account=case.described.service_account)]


def try_store(url: str, *, account: str | None = None, make_folder: bool = True) -> Finding:
    """Writes one small object to a store and deletes it again. `account`: who will do it later, if that is known."""
    scheme, separator, _ = url.partition("://")
    made = not separator and not Path(url).exists()
    if made and not make_folder:
        return unknown(WRITE, f"there is no folder {url!r} yet")
    try:
        same = _written(url)
    except (OutlastError, OSError) as error:
        return _not_written(url, scheme if separator else "file", error)
    finally:
        if made:
            with suppress(OSError):  # somebody else has written there meanwhile
                Path(url).rmdir()
    if not same:
        return bad(WRITE, f"{url} gave something else back than was written, or does not list it", _look(url, scheme))
    later = f"; the job will do it as {account}, whose rights are others" if account else ""
    return ok(WRITE, f"wrote, read, listed and deleted an object in {url}, as you{later}")


def _written(url: str) -> bool:
    """Whether what was written is listed, and came back as it was."""
    name, data = f"doctor-{secrets.token_hex(8)}", secrets.token_bytes(32)
    store = open_store(url)
    store.create(name, data)
    try:
        return store.read(name) == data and any(one.name == name for one in store.list(""))
    finally:
        store.delete(name)


def _not_written(url: str, scheme: str, error: Exception) -> Finding:
    """Without credentials, or without an answer, nobody knows whether it would work; anything else is a refusal."""
    why, mend = f"{url}: {error}".rstrip("."), _LOGIN_OF_CLIENTS.get(scheme) or _look(url, scheme)
    if isinstance(error, StoreUnreachable) and scheme in _LOGIN_OF_CLIENTS:
        return unknown(WRITE, why, _look(url, scheme))
    return unknown(WRITE, why, mend) if "no credentials" in why else bad(WRITE, why, mend)


def _look(url: str, scheme: str) -> str:
    if scheme == "gs":
        return command(
            "gcloud", "storage", "buckets", "describe", "gs://" + url.removeprefix("gs://").partition("/")[0]
        )
    return command("outlast", "checkpoints", "list", url) if "://" in url else command("mkdir", "-p", url)
