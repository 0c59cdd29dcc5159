"""What the checks are given: the description, where its file lies, and the programs to ask."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from outlast.deploy.description import Description
from outlast.deploy.doctor.findings import Finding
from outlast.deploy.doctor.programs import Answer, Programs, mapping, parsed, text_at
from outlast.deploy.gke.pools import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job to look at. `folder`: that of the description's file, which its `source` is relative to."""

    described: Description
    programs: Programs
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)

    @property
    def project(self) -> str | None:
        """The description's project, else gcloud's."""
        return self.described.project or settings_of_gcloud(self.programs).project

    @property
    def with_project(self) -> Description:
        """The description, with the project that counts."""
        return replace(self.described, project=self.project)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that the description names; None where it names none, or no place for it."""
        asked, location = self.described.kubernetes, self.described.kubernetes.location or self.described.region
        if asked.cluster is None or location is None or self.project is None:
            return None
        return Cluster(asked.cluster, location, self.project)

    @property
    def at_a_time(self) -> int:
        """How many tasks run at once."""
        return self.described.parallelism or self.described.tasks

    def gcloud(self, *words: str) -> Answer:
        """gcloud about this job's project, in JSON."""
        project = ("--project", self.project) if self.project else ()
        return self.programs.ask("gcloud", *words, *project, "--format=json")

    def object_of(self, *argv: str) -> Mapping[str, object] | Answer:
        """The object that a program prints in JSON; else its answer with the failure."""
        return parsed(self.programs.ask(*argv, "--format=json"), mapping)

    def kubectl(self, *words: str) -> Answer:
        """kubectl, as `deploy` calls it: in the context of the cluster that is named, else in the current one.

        Its own limit is shorter than ours, so that it can say what it waited for.
        """
        context = () if self.cluster is None else ("--context", self.cluster.context)
        return self.programs.ask("kubectl", *words, *context, "--request-timeout=15s")


@dataclass(frozen=True, slots=True)
class GcloudSettings:
    """What matters of gcloud's configuration. `answer`: where it could not be read."""

    account: str | None = None
    project: str | None = None
    impersonated: str | None = None
    without_credentials: bool = False
    answer: Answer | None = None


def settings_of_gcloud(programs: Programs) -> GcloudSettings:
    """Reads gcloud's configuration: properties, and the variables that stand for them."""
    said = parsed(programs.ask("gcloud", "config", "list", "--format=json"), mapping)
    if isinstance(said, Answer):
        return GcloudSettings(answer=said)
    return GcloudSettings(
        account=text_at(said, "core", "account"),
        project=text_at(said, "core", "project"),
        impersonated=text_at(said, "auth", "impersonate_service_account"),
        without_credentials=str(text_at(said, "auth", "disable_credentials")).lower() == "true",
    )


Findings = list[Finding]
