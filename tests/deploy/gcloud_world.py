"""A gcloud for tests, of what the emulated Cloud Run does not speak: a world in a file, and strict about flags.

`gcloud_in(folder)` makes the executable. It takes the commands and flags of `_FLAGS` and nothing else, refuses what
the real one refuses (a bucket twice, a role for nobody, an image without its parts), and ships a table of itself. KILL
in its folder names a change ("3" before the fourth, "3+" after it) at which it kills the process that called it.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

_WIDE = {"--project", "--quiet", "--format", "--flatten"}
_IAM = {"--member", "--role", "--condition"}
# Commands with their own flags and the least and most of their arguments.
_FLAGS: dict[str, tuple[set[str], int, int]] = {
    "services enable": (set(), 1, 20),
    "services list": ({"--enabled"}, 0, 0),
    "storage buckets create": (
        {"--location", "--uniform-bucket-level-access", "--public-access-prevention", "--soft-delete-duration"}, 1, 1
    ),
    "storage buckets describe": (set(), 1, 1),
    "storage buckets delete": (set(), 1, 1),
    "storage buckets add-iam-policy-binding": (_IAM, 1, 1),
    "storage buckets remove-iam-policy-binding": (_IAM, 1, 1),
    "storage buckets get-iam-policy": (set(), 1, 1),
    "storage ls": (set(), 1, 1),
    "storage rm": ({"--recursive"}, 1, 1),
    "projects add-iam-policy-binding": (_IAM, 1, 1),
    "projects remove-iam-policy-binding": (_IAM, 1, 1),
    "projects get-iam-policy": (set(), 1, 1),
    "iam service-accounts create": ({"--display-name"}, 1, 1),
    "iam service-accounts describe": (set(), 1, 1),
    "iam service-accounts delete": (set(), 1, 1),
    "artifacts repositories create": ({"--location", "--repository-format", "--description"}, 1, 1),
    "artifacts repositories describe": ({"--location"}, 1, 1),
    "artifacts repositories delete": ({"--location"}, 1, 1),
    "artifacts repositories add-iam-policy-binding": ({"--location", *_IAM}, 1, 1),
    "artifacts repositories remove-iam-policy-binding": ({"--location", *_IAM}, 1, 1),
    "artifacts repositories get-iam-policy": ({"--location"}, 1, 1),
    "artifacts docker images describe": (set(), 1, 1),
    "artifacts docker images delete": ({"--delete-tags"}, 1, 1),
    "builds submit": (
        {"--config", "--ignore-file", "--service-account", "--gcs-source-staging-dir", "--region"}, 1, 1
    ),
    "run jobs replace": ({"--region"}, 1, 1),
    "run jobs describe": ({"--region"}, 1, 1),
    "run jobs delete": ({"--region"}, 1, 1),
    "run jobs execute": ({"--region"}, 1, 1),
    "run jobs executions list": ({"--job", "--region"}, 0, 0),
    "run jobs executions delete": ({"--region"}, 1, 1),
}  # fmt: skip
_BARE = {
    "--quiet", "--enabled", "--recursive", "--delete-tags", "--uniform-bucket-level-access",
    "--public-access-prevention",
}  # fmt: skip
_READS = ("list", "describe", "get-iam-policy", "ls")
FLAGS = _FLAGS
TABLE = Path("data", "cli", "gcloud_completions.py")


def gcloud_in(folder: Path) -> Path:
    """An executable `gcloud` in folder/bin, whose world is folder/world.json."""
    program = folder / "bin" / "gcloud"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {folder} "$@"\n')
    program.chmod(0o755)
    (folder / "world.json").write_text("{}")
    (folder / "VERSION").write_text("999.0.0\n")
    table = folder / TABLE
    table.parent.mkdir(parents=True)
    tree: dict[str, Any] = {"commands": {}}
    for command, (flags, _, _) in _FLAGS.items():
        node = tree
        for word in command.split():
            node = node["commands"].setdefault(word, {"commands": {}, "flags": {}})
        node["flags"] = dict.fromkeys(sorted(flags), "value")
    table.write_text(f"# as the real one ships it\nTREE = {json.dumps(tree)}\n")
    return program


def world_in(folder: Path) -> dict[str, Any]:
    """What is there, by kind: {name: detail}; "calls" are the changes in their order."""
    found: dict[str, Any] = json.loads((folder / "world.json").read_text())
    return found


class _Gcloud:
    """One call."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder, self.world = folder, world_in(folder)
        self.command = next((one for one in sorted(_FLAGS, key=len, reverse=True) if _begins(words, one)), "")
        if not self.command:
            self.fail("Invalid choice")
        self.flags, self.arguments = self.parse(words[len(self.command.split()) :])

    def parse(self, words: list[str]) -> tuple[dict[str, str], list[str]]:
        own, least, most = _FLAGS[self.command]
        flags, arguments, rest = {}, [], list(words)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            if not name.startswith("--"):
                arguments.append(word)
            elif name not in own | _WIDE:
                self.fail(f"unrecognized arguments: {name}")
            elif name in _BARE:
                flags[name] = "true"
            else:
                flags[name] = value if equals else rest.pop(0)
        if not least <= len(arguments) <= most:
            self.fail(f"argument: {arguments}")
        return flags, arguments

    def run(self) -> None:
        if "--project" not in self.flags:
            self.fail("The required property [project] is not currently set.")
        doing = getattr(self, self.command.replace(" ", "_").replace("-", "_"))
        reads = self.command.split()[-1] in _READS
        if reads:
            self.leave("\n".join(doing()))
        number = len(self.world.get("calls", []))
        self.kill_at(f"{number}")
        doing()
        self.world.setdefault("calls", []).append(
            " ".join([self.command, *self.arguments, self.flags.get("--role", "")]).strip()
        )
        (self.folder / "world.json").write_text(json.dumps(self.world))
        self.kill_at(f"{number}+")

    def kill_at(self, moment: str) -> None:
        order = self.folder / "KILL"
        if order.exists() and order.read_text() == moment:
            order.unlink()
            os.kill(os.getppid(), signal.SIGKILL)
            sys.exit(1)

    # --- the world ---

    def all(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = self.world.setdefault(kind, {})
        return found

    def new(self, kind: str, name: str, detail: Any = True) -> None:
        if name in self.all(kind):
            self.fail(f"HTTPError 409: {name} already exists")
        self.all(kind)[name] = detail

    def there(self, kind: str, name: str) -> list[str]:
        if name not in self.all(kind):
            self.fail(f"NOT_FOUND: {name} was not found")
        return [name]

    def gone(self, kind: str, name: str) -> None:
        self.there(kind, name)
        del self.all(kind)[name]

    def needs(self, api: str) -> None:
        if f"{api}.googleapis.com" not in self.all("apis"):
            self.fail(f"SERVICE_DISABLED: {api} has not been used in this project before or it is disabled")

    def fail(self, message: str) -> NoReturn:
        print(f"ERROR: (gcloud) {message}", file=sys.stderr)
        sys.exit(1)

    def leave(self, said: str) -> NoReturn:
        print(said)
        sys.exit(0)

    # --- the commands ---

    def services_enable(self) -> None:
        self.all("apis").update(dict.fromkeys(self.arguments, True))

    def services_list(self) -> list[str]:
        return list(self.all("apis"))

    def storage_buckets_create(self) -> None:
        if self.flags["--location"].count("-") != 1 or self.flags["--soft-delete-duration"] != "0":
            self.fail("a bucket in the job's region, without soft delete, was expected")
        self.new("buckets", self.arguments[0])

    def storage_buckets_describe(self) -> list[str]:
        return self.there("buckets", self.arguments[0])

    def storage_buckets_delete(self) -> None:
        if any(name.startswith(f"{self.arguments[0]}/") for name in self.all("objects")):
            self.fail("HTTPError 409: The bucket you tried to delete is not empty.")
        self.gone("buckets", self.arguments[0])

    def storage_ls(self) -> list[str]:
        found = [name for name in self.all("objects") if name.startswith(self.arguments[0])]
        if not found:
            self.fail("One or more URLs matched no objects.")
        return found

    def storage_rm(self) -> None:
        url = self.arguments[0]
        for name in self.storage_ls() if url.count("/") > 2 else list(self.all("objects")):
            if name.startswith(url):
                del self.all("objects")[name]
        if url in self.all("buckets"):
            self.gone("buckets", url)

    def iam_service_accounts_create(self) -> None:
        self.needs("iam")
        if not re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", self.arguments[0]):
            self.fail("INVALID_ARGUMENT: account id")
        self.new("accounts", f"{self.arguments[0]}@{self.flags['--project']}.iam.gserviceaccount.com")

    def iam_service_accounts_describe(self) -> list[str]:
        return self.there("accounts", self.arguments[0])

    def iam_service_accounts_delete(self) -> None:
        self.gone("accounts", self.arguments[0])

    def add_binding(self, kind: str) -> None:
        if kind != "projects":
            self.there(kind, self.arguments[0])
        self.there("accounts", self.flags["--member"].removeprefix("serviceAccount:"))
        self.new("bindings", self.binding())

    def binding(self) -> str:
        return f"{self.flags['--role']} on {self.arguments[0]} for {self.flags['--member']}"

    def get_policy(self, kind: str) -> list[str]:
        if kind != "projects":
            self.there(kind, self.arguments[0])
        if self.flags["--flatten"] != "bindings[].members" or 'separator=" "' not in self.flags["--format"]:
            self.fail("this format is not known here")
        held = (one.partition(f" on {self.arguments[0]} for ") for one in self.all("bindings"))
        return [f"{role} {member}" for role, found, member in held if found]

    def artifacts_repositories_create(self) -> None:
        self.needs("artifactregistry")
        self.new("repositories", self.arguments[0])

    def artifacts_repositories_describe(self) -> list[str]:
        return self.there("repositories", self.arguments[0])

    def artifacts_repositories_delete(self) -> None:
        self.gone("repositories", self.arguments[0])

    def artifacts_docker_images_describe(self) -> list[str]:
        return self.there("images", self.arguments[0])

    def artifacts_docker_images_delete(self) -> None:
        self.gone("images", self.arguments[0])

    def builds_submit(self) -> None:
        self.needs("cloudbuild")
        source, staging = Path(self.arguments[0]), self.flags["--gcs-source-staging-dir"]
        image = re.search(r"^images:\n- (\S+)$", Path(self.flags["--config"]).read_text(), re.MULTILINE)
        member = f"serviceAccount:{self.flags['--service-account'].rpartition('/')[2]}"
        held = [one for one in self.all("bindings") if one.endswith(f" for {member}")]
        for role in ("storage.objectViewer", "logging.logWriter", "artifactregistry.writer"):
            if not any(one.startswith(f"roles/{role} on ") for one in held):
                self.fail(f"PERMISSION_DENIED: the build's account lacks {role}")
        if (
            image is None
            or not (source / "Dockerfile").is_file()
            or not (source / self.flags["--ignore-file"]).is_file()
        ):
            self.fail("there is no Dockerfile, no image, or no ignore file")
        self.all("objects")[f"{staging}/1.tgz"] = True
        self.new("images", image[1])

    def run_jobs_replace(self) -> None:
        self.needs("run")
        text = Path(self.arguments[0]).read_text()
        name, image, account = (re.search(rf"{key}: (\S+)", text) for key in ("  name", "image", "serviceAccountName"))
        assert name is not None
        assert image is not None
        assert account is not None
        self.there("images", image[1])
        self.there("accounts", account[1])
        self.all("jobs")[name[1]] = text

    def run_jobs_describe(self) -> list[str]:
        if self.arguments[0] not in self.all("jobs"):
            self.fail(f"Cannot find job [{self.arguments[0]}]")
        if self.flags["--format"] == "value(metadata.labels.made-by)":
            return re.findall(r"^    made-by: (.*)$", self.all("jobs")[self.arguments[0]], re.MULTILINE) or [""]
        return self.arguments

    def run_jobs_delete(self) -> None:
        self.gone("jobs", self.arguments[0])

    def run_jobs_execute(self) -> None:
        self.there("jobs", self.arguments[0])
        self.new("executions", f"{self.arguments[0]}-x{len(self.world.get('calls', []))}", self.arguments[0])

    def run_jobs_executions_list(self) -> list[str]:
        return [name for name, job in self.all("executions").items() if job == self.flags["--job"]]

    def run_jobs_executions_delete(self) -> None:
        self.gone("executions", self.arguments[0])


def _policies() -> None:
    """The three groups that have roles, each with its three commands."""
    for group, kind in (
        ("storage_buckets", "buckets"),
        ("projects", "projects"),
        ("artifacts_repositories", "repositories"),
    ):

        def add(self: _Gcloud, kind: str = kind) -> None:
            self.add_binding(kind)

        def remove(self: _Gcloud) -> None:
            self.gone("bindings", self.binding())

        def get(self: _Gcloud, kind: str = kind) -> list[str]:
            return self.get_policy(kind)

        setattr(_Gcloud, f"{group}_add_iam_policy_binding", add)
        setattr(_Gcloud, f"{group}_remove_iam_policy_binding", remove)
        setattr(_Gcloud, f"{group}_get_iam_policy", get)


def _begins(words: list[str], command: str) -> bool:
    return words[: len(command.split())] == command.split()


if __name__ == "__main__":
    _policies()
    _Gcloud(Path(sys.argv[1]), sys.argv[2:]).run()
