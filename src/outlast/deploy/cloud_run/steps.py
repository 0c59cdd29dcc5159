"""The steps of a deployment to Cloud Run, with gcloud: each asks first whether its thing is there."""

import os
from pathlib import Path

import yaml

from outlast.deploy.cloud_run.dockerfile import DOCKERFILE, REQUIREMENTS, dockerfile, is_ours, requirements_of
from outlast.deploy.cloud_run.manifest import MADE_BY, manifest
from outlast.deploy.cloud_run.settings import CloudRunJob, settle
from outlast.deploy.description_file import Described
from outlast.deploy.google_cloud import BUILDING_APIS, Gcloud, apis, role
from outlast.deploy.plan import NAME, Listing, Made, Plan, Step, WrittenFile
from outlast.deploy.sources import digest_of, upload_rules

TARGET = "cloud-run"
JOB_FILE = "job.yaml"
_BUILD_FILE, _RULES_FILE = "cloudbuild.yaml", "gcloudignore"
_APIS = ("run", "iam", "storage")
_SOURCES = "outlast-sources"


def plan_for(described: Described, files: Path, *, execute: bool = True) -> Plan:
    """The plan. Its commands are for the folder `files`. Raises SettingsError for what cannot be deployed."""
    job = settle(described.description)
    gcloud = Gcloud(job.project, job.region)
    builds = described.description.source is not None
    steps = [apis(gcloud, *_APIS, *(BUILDING_APIS if builds else ()))]
    if job.bucket is not None:
        steps.append(_bucket(gcloud, job.region, job.bucket, job.prefix))
    if job.makes_account:
        steps.append(_account(gcloud, "account", job.service_account, f"runs {job.name}"))
    if job.bucket is not None:
        why = "the job reads and writes its checkpoints, in this bucket only"
        user = "roles/storage.objectUser"
        steps.append(_bucket_role(gcloud, "role", job.bucket, account=job.service_account, name=user, why=why))
    image = described.description.image
    if builds:
        image, build = _build(described, gcloud, job, files)
        steps += build
    assert image is not None  # a description has a source or an image
    meant = described.description.platform
    notes = [] if meant in (None, TARGET) else [f"the description is for the platform {meant}"]
    notes += _installed(described, steps)
    steps.append(_job(gcloud, job, image))
    if execute:
        steps.append(_execution(gcloud, job))
    return Plan(
        target=TARGET,
        name=job.name,
        steps=tuple(steps),
        notes=(*notes, *job.notes),
        warnings=job.warnings,
        exposure=job.exposure.lines(),
        after=_after(job),
    )


def _bucket(gcloud: Gcloud, region: str, bucket: str, folder: str) -> Step:
    """`folder` in it is the job's; "" if all of it is. What others have put beside it keeps the bucket."""
    url = f"gs://{bucket}"
    everything = gcloud.command("storage", "rm", "--recursive", url)
    own = gcloud.command("storage", "rm", "--recursive", f"{url}/{folder}/", may_fail=True)
    made = Made(
        kind="bucket",
        name=url,
        probe=gcloud.probe("storage", "buckets", "describe", url, "--format", "value(name)"),
        undo=(own, gcloud.command("storage", "buckets", "delete", url)) if folder else (everything,),
        holds=f"all checkpoints and results in {folder or 'it'}",
    )
    return Step(
        name="bucket",
        why="checkpoints, in the job's own region; no soft delete, which would bill each retired one for 7 more days",
        commands=(
            gcloud.command(
                "storage", "buckets", "create", url, "--location", region, "--uniform-bucket-level-access",
                "--public-access-prevention", "--soft-delete-duration=0",
            ),
        ),
        makes=(made,),
    )  # fmt: skip


def _account(gcloud: Gcloud, step: str, address: str, what: str) -> Step:
    name = address.partition("@")[0]
    made = Made(
        kind="service account",
        name=address,
        probe=gcloud.probe("iam", "service-accounts", "describe", address, "--format", "value(email)"),
        undo=(gcloud.command("iam", "service-accounts", "delete", address),),
    )
    create = gcloud.command("iam", "service-accounts", "create", name, "--display-name", f"outlast: {what}")
    return Step(name=step, why=f"an identity that {what} and may nothing else", commands=(create,), makes=(made,))


def _bucket_role(gcloud: Gcloud, step: str, bucket: str, *, account: str, name: str, why: str) -> Step:
    return role(gcloud, step, ("storage", "buckets"), (f"gs://{bucket}",), member=account, role=name, why=why)


# --- the image --------------------------------------------------------------------------------------


def _build(described: Described, gcloud: Gcloud, job: CloudRunJob, files: Path) -> tuple[str, list[Step]]:
    description = described.description
    source = described.folder / (description.source or ".")
    written = _dockerfile_step(described, source, files)
    text = written.files[0].text if written else ""
    tag = digest_of(source, text, skip=(DOCKERFILE,) if written else ())
    staged = job.bucket or f"{job.project}-outlast"
    repository = f"{job.host}/{job.project}/{job.repository}"
    image = description.image or f"{repository}/{job.name}"
    if ":" not in image.rpartition("/")[2] and "@" not in image:
        image = f"{image}:{tag}"
    steps = [] if job.bucket else [_bucket(gcloud, job.region, staged, _SOURCES)]
    if description.image is None:
        steps.append(_repository(gcloud, job))
    steps.append(_account(gcloud, "builder", job.builder, f"builds the image of {job.name}"))
    steps += _builder_roles(gcloud, job, staged, own_repository=description.image is None)
    steps += [written] if written else []
    sources = f"gs://{staged}/{_SOURCES}/{job.name}"
    steps.append(_uploaded(gcloud, sources))
    steps.append(_image(gcloud, job, image, source, files, uploaded=sources))
    return image, steps


def _repository(gcloud: Gcloud, job: CloudRunJob) -> Step:
    place = ("--location", job.region)
    made = Made(
        kind="repository",
        name=f"{job.host}/{job.project}/{job.repository}",
        probe=gcloud.probe("artifacts", "repositories", "describe", job.repository, *place, "--format", "value(name)"),
        undo=(gcloud.command("artifacts", "repositories", "delete", job.repository, *place),)
        if job.makes_repository
        else (),
        holds="all images in it",
        why_kept=None if job.makes_repository else "the description names it, so others may keep their images there",
    )
    create = gcloud.command(
        "artifacts", "repositories", "create", job.repository, *place, "--repository-format", "docker",
        "--description", "Images that outlast deploys",
    )  # fmt: skip
    return Step(name="repository", why="the images, near the job", commands=(create,), makes=(made,))


def _builder_roles(gcloud: Gcloud, job: CloudRunJob, staged: str, *, own_repository: bool) -> list[Step]:
    account, viewer = job.builder, "roles/storage.objectViewer"
    why = "the build reads the sources"
    steps = [_bucket_role(gcloud, "builder-reads", staged, account=account, name=viewer, why=why)]
    writer, why = "roles/logging.logWriter", "the build writes its log"
    steps.append(role(gcloud, "builder-logs", ("projects",), (job.project,), member=account, role=writer, why=why))
    if own_repository:
        writer, why = "roles/artifactregistry.writer", "the build pushes the image, into this repository only"
        thing = (job.repository, "--location", job.region)
        group = ("artifacts", "repositories")
        steps.append(role(gcloud, "builder-pushes", group, thing, member=account, role=writer, why=why))
    return steps


def _dockerfile_step(described: Described, source: Path, files: Path) -> Step | None:
    """None where the source has a Dockerfile that is not ours, or not any more: it is used as it is."""
    target = source / DOCKERFILE
    if target.exists() and not is_ours(target.read_text(errors="replace")):
        return None
    path = Path(os.path.relpath(target, files))
    text = dockerfile(described.description, requirements_of(described.description, source))
    return Step(
        name="dockerfile",
        why="how the image is made; process 1 is `outlast run`, which hears SIGTERM",
        files=(WrittenFile(path=path, text=text, over=True),),  # it is not there, or nobody has changed it
    )


def _installed(described: Described, steps: list[Step]) -> list[str]:
    """What the image gets, where the description does not say it: a lack of it would show on a machine that costs."""
    description = described.description
    ours = any(step.name == "dockerfile" for step in steps)
    if not ours or description.packages or description.requirements is not None:
        return []
    if requirements_of(description, described.folder / (description.source or ".")) is not None:
        return [f"the image gets the packages of {REQUIREMENTS}, and outlast"]
    return ["the image gets no package but outlast: name what the program imports in packages or requirements"]


def _uploaded(gcloud: Gcloud, url: str) -> Step:
    """Nothing runs here: the build uploads them, and the record has to know before it does."""
    made = Made(
        kind="uploaded sources",
        name=url,
        probe=gcloud.probe("storage", "ls", f"{url}/"),
        undo=(gcloud.command("storage", "rm", "--recursive", f"{url}/"),),
    )
    return Step(name="sources", why="the build uploads them into the bucket, not into one of its own", makes=(made,))


def _image(gcloud: Gcloud, job: CloudRunJob, image: str, source: Path, files: Path, *, uploaded: str) -> Step:
    rules = upload_rules(source)
    build = {
        "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "--tag", image, "."]}],
        "images": [image],
        "options": {"logging": "CLOUD_LOGGING_ONLY"},  # asked for where the build has its own service account
    }
    written = [WrittenFile(path=Path(_BUILD_FILE), text=yaml.safe_dump(build, sort_keys=False))]
    ignored: tuple[str, ...] = ()
    if rules is not None:
        written.append(WrittenFile(path=Path(_RULES_FILE), text=rules))
        ignored = ("--ignore-file", os.path.relpath(files / _RULES_FILE, source))
    made = Made(
        kind="image",
        name=image,
        probe=gcloud.probe(
            "artifacts", "docker", "images", "describe", image, "--format", "value(image_summary.digest)"
        ),
        undo=(gcloud.command("artifacts", "docker", "images", "delete", image, "--delete-tags"),),
    )
    account = f"projects/{job.project}/serviceAccounts/{job.builder}"
    submit = gcloud.command(
        "builds", "submit", os.path.relpath(source, files), "--config", _BUILD_FILE, *ignored,
        "--service-account", account, "--gcs-source-staging-dir", uploaded, region=True, attempts=3,
    )  # fmt: skip
    return Step(
        name="image", why="the program and what it needs; its tag tells the sources apart", files=tuple(written),
        commands=(submit,), makes=(made,),
    )  # fmt: skip


# --- the job ----------------------------------------------------------------------------------------


def _job(gcloud: Gcloud, job: CloudRunJob, image: str) -> Step:
    asks = ("run", "jobs", "describe", job.name, "--format")
    label, maker = MADE_BY
    made = Made(
        kind="job",
        name=f"{job.name} in {job.region}",
        probe=gcloud.probe(*asks, "value(metadata.name)", region=True),
        mark=gcloud.probe(*asks, f"value(metadata.labels.{label})", region=True, line=maker),
        undo=(gcloud.command("run", "jobs", "delete", job.name, region=True),),
        holds="its executions and their states",
    )
    return Step(
        name="job",
        why="a new task attempt resumes where the one before it stopped",
        files=(WrittenFile(path=Path(JOB_FILE), text=manifest(job, image)),),
        commands=(gcloud.command("run", "jobs", "replace", JOB_FILE, region=True, attempts=3),),
        makes=(made,),
        again=True,
    )


def _execution(gcloud: Gcloud, job: CloudRunJob) -> Step:
    names = ("run", "jobs", "executions", "list", "--job", job.name, "--format", "value(metadata.name)")
    made = Made(
        kind="execution",
        name=f"of {job.name}",
        listing=Listing(gcloud.argv(*names, region=True)),
        undo=(gcloud.command("run", "jobs", "executions", "delete", NAME, region=True),),
    )
    start = gcloud.command("run", "jobs", "execute", job.name, region=True)
    return Step(name="execution", why="starts the job", commands=(start,), makes=(made,), spends=True)


def _after(job: CloudRunJob) -> tuple[str, ...]:
    where = f"--region {job.region} --project {job.project}"
    lines = [f"gcloud run jobs executions list --job {job.name} {where}"]
    if job.bucket is not None:
        lines.append(f"outlast status gs://{job.bucket}/{job.prefix}".rstrip("/"))
    return tuple(lines)
