"""Whether the region has GPUs for this job, as far as quotas tell; capacity is another matter.

Cloud Run has quotas of its own, one with and one without zonal redundancy (Cloud Run, "GPU zonal redundancy",
2026-11-29). Their ids are those that users of `gcloud beta quotas` name (2026-11-30).
"""

import re
from collections.abc import Mapping

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, mapping, number_at, parsed, rows_at, text_at, value_at
from outlast.deploy.doctor.troubles import is_not_there, trouble

_RUN, _COMPUTE = "run.googleapis.com", "compute.googleapis.com"
# The GPU's name of Cloud Run, and how the ids of its quotas call it.
_IN_QUOTAS = {"nvidia-l4": "NvidiaL4", "nvidia-rtx-pro-6000": "NvidiaRtxPro6000", "nvidia-h100-80gb": "NvidiaH100"}


def run_quota_id(gpu: str, *, redundant: bool) -> str | None:
    """The id of Cloud Run's quota for a GPU; None for one that it is not known to have."""
    name = _IN_QUOTAS.get(gpu)
    redundancy = "" if redundant else "NoZonalRedundancy"
    return name and f"{name}GpuAlloc{redundancy}PerProjectRegion"


def run_gpus(case: Case) -> Findings:
    """Cloud Run's quota without zonal redundancy, which `deploy` asks for; the other one is told."""
    check, gpu, region = "quota cloud-run", case.described.hardware.gpu, case.described.region
    if gpu is None:
        return []
    quota, redundant = run_quota_id(gpu, redundant=False), run_quota_id(gpu, redundant=True)
    if quota is None or redundant is None:
        return [unknown(check, f"no quota of Cloud Run for {gpu} is known; it has {', '.join(_IN_QUOTAS)}")]
    if region is None:
        return [unknown(check, "the description names no region")]
    needed = max(1, case.described.hardware.gpus) * case.at_a_time
    there, with_redundancy = _granted(case, quota, region), _granted(case, redundant, region)
    if isinstance(there, Answer):
        return [_no_quota(check, case, there, quota, needed)]
    other = "unknown" if isinstance(with_redundancy, Answer) else _shown(with_redundancy)
    words = f"{gpu} in {region}: {_shown(there)} without zonal redundancy (with it: {other}), {needed} needed"
    return [_enough(check, words, there, needed, _more(case, quota, needed))]


def _enough(check: str, words: str, there: int | None, needed: int, mend: str) -> Finding:
    if there is None:
        return unknown(check, f"{words}; no number may mean that none was granted", mend)
    return bad(check, words, mend) if there < needed else ok(check, words)


def _no_quota(check: str, case: Case, said: Answer, quota: str, needed: int) -> Finding:
    if is_not_there(said):
        return unknown(check, f"this project is told of no quota {quota}", _more(case, quota, needed))
    return trouble(check, said, ask="cloudquotas.quotas.get (roles/cloudquotas.viewer)")


def _shown(value: int | None) -> str:
    return "no number" if value is None else str(value)


def _more(case: Case, quota: str, needed: int, *, service: str = _RUN, everywhere: bool = False) -> str:
    """Asks for so many GPUs; somebody at Google decides."""
    where = () if everywhere else ("--dimensions", f"region={case.described.region}")
    return command(
        "gcloud", "beta", "quotas", "preferences", "create", "--service", service,
        "--project", case.project or "PROJECT_ID", "--quota-id", quota, "--preferred-value", str(needed), *where,
    )  # fmt: skip


def _granted(case: Case, quota: str, region: str) -> int | Answer | None:
    """What the region has; None where the service tells no number."""
    said = parsed(case.gcloud("beta", "quotas", "info", "describe", quota, "--service", _RUN), mapping)
    return said if isinstance(said, Answer) else value_in(said, region)


def value_in(said: Mapping[str, object], region: str) -> int | None:
    """The value for a region; one that names the region beats one for all places that lists it, or lists none."""
    best: tuple[int, int | None] = (-1, None)
    for one in rows_at(said, "dimensionsInfos"):
        named, places = text_at(one, "dimensions", "region"), value_at(one, "applicableLocations")
        if named not in (None, region):
            continue
        listed_here = isinstance(places, list) and region in places
        if named is None and places and not listed_here:
            continue
        exact, value = (2 if named else 1), text_at(one, "details", "value")
        if exact > best[0]:
            best = (exact, int(value) if value is not None and re.fullmatch(r"-?\d+", value) else None)
    # -1 is how the service says "no limit".
    return 10**9 if best[1] == -1 else best[1]


def machine_gpus(case: Case) -> Findings:
    """Compute Engine's quotas, of which GKE's nodes and lone machines are made."""
    hardware, region, check = case.described.hardware, case.described.region, "quota compute"
    if hardware.gpu is None:
        return []
    if region is None:
        return [unknown(check, "the description names no region")]
    said = parsed(case.gcloud("compute", "regions", "describe", region), mapping)
    if isinstance(said, Answer):
        return [trouble(check, said, ask="compute.regions.get (roles/compute.viewer)")]
    metric = compute_metric(hardware.gpu, preemptible=hardware.spot or hardware.flex_start)
    there = _room(said, metric)
    if there is None:
        return [unknown(check, f"{region} has no quota {metric}; the accelerator may be named otherwise there")]
    return [_machines_enough(case, metric, there, hardware.gpus * case.at_a_time * case.described.kubernetes.nodes)]


def _machines_enough(case: Case, metric: str, there: float, needed: int) -> Finding:
    """Both quotas count: that of the region, and the one of all regions together."""
    whole = parsed(case.gcloud("compute", "project-info", "describe"), mapping)
    everywhere = None if isinstance(whole, Answer) else _room(whole, "GPUS_ALL_REGIONS")
    words = f"{metric} in {case.described.region}: {there:g} left, {needed} needed"
    if everywhere is not None and everywhere < needed:
        words = f"GPUS_ALL_REGIONS: {everywhere:g} left, {needed} needed"
        more = _more(case, "GPUS-ALL-REGIONS-per-project", needed, service=_COMPUTE, everywhere=True)
        return bad("quota compute", words, more)
    if there < needed:
        quota = f"{metric.replace('_', '-')}-per-project-region"
        return bad("quota compute", words, _more(case, quota, needed, service=_COMPUTE))
    return ok("quota compute", words)


def compute_metric(gpu: str, *, preemptible: bool) -> str:
    """Compute Engine's quota for an accelerator: PREEMPTIBLE_NVIDIA_L4_GPUS for nvidia-l4 on Spot machines."""
    plain = re.sub(r"^nvidia-(tesla-)?", "", gpu).replace("-", "_").upper()
    return f"{'PREEMPTIBLE_' if preemptible else ''}NVIDIA_{plain}_GPUS"


def _room(said: Mapping[str, object], metric: str) -> float | None:
    """What is left of a quota; None where it is not listed."""
    for one in rows_at(said, "quotas"):
        if text_at(one, "metric") == metric:
            return number_at(one, "limit") - number_at(one, "usage")
    return None
