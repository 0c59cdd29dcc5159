"""Where things are in a store: `<job>/<run>/task-<index>/…`. Whatever does not fit a pattern here is a stray."""

import re
from dataclasses import dataclass

from outlast.errors import SettingsError

STORE_MARK = "outlast-store.json"
EXECUTIONS = "executions"
MEETINGS = "meetings"  # where the ranks of a launch find each other
FORMAT = 2
READABLE_FORMATS = (1, 2)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMMIT = re.compile(r"s(\d{12,})-a(\d{6,})-q(\d{6,})\.json")
_DATA = re.compile(r"(s\d{12,}-a\d{6,}-q\d{6,})-r(\d{4,})-[0-9a-f]{12}\.safetensors")
_CLAIM = re.compile(r"a(\d{6,})\.json")
_JOURNAL = re.compile(r"a(\d{6,})(?:-([pc])(\d{6,}))?\.jsonl")
_TASK = re.compile(r"task-(\d+)")
_NUMBERED_RUN = re.compile(r"run-(\d+)")


def checked_name(name: str, *, setting: str) -> str:
    """The name, if it can be a folder in every store; raises SettingsError naming the setting."""
    if not _PLAIN_NAME.fullmatch(name) or name in (EXECUTIONS, MEETINGS) or _TASK.fullmatch(name):
        raise SettingsError(
            f"{setting}={name!r} cannot name a folder in every store: use up to 128 letters, digits, '.', '_' and '-', "
            f"beginning with a letter or digit, other than {EXECUTIONS!r}, {MEETINGS!r} and 'task-N'"
        )
    return name


def run_number(run: str) -> int | None:
    """N of a run that outlast named `run-N`, or None for a run the user named."""
    match = _NUMBERED_RUN.fullmatch(run)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True, order=True)
class CommitName:
    """What a commit record's name says; the order is the order of progress."""

    step: int
    attempt: int
    sequence: int

    @property
    def text(self) -> str:
        """The file name."""
        return f"s{self.step:012}-a{self.attempt:06}-q{self.sequence:06}.json"

    @classmethod
    def parse(cls, text: str) -> "CommitName | None":
        """None for a stray."""
        match = _COMMIT.fullmatch(text)
        if match is None or cls(*map(int, match.groups())).text != text:
            return None
        return cls(*map(int, match.groups()))


@dataclass(frozen=True, slots=True)
class JournalName:
    """What a journal's name says: whose part it is, or, `shortened`, that it stands for all parts before `part`."""

    attempt: int
    part: int
    shortened: bool


@dataclass(frozen=True, slots=True)
class RunPlace:
    """One run of one job."""

    job: str
    run: str

    @property
    def folder(self) -> str:
        return f"{self.job}/{self.run}"

    @property
    def record(self) -> str:
        return f"{self.folder}/run.json"

    def task(self, index: int) -> "TaskPlace":
        return TaskPlace(self.job, self.run, index)


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One task of one run: its claims, commits, data, finish marks and journals."""

    job: str
    run: str
    index: int

    @classmethod
    def parse(cls, name: str) -> "TaskPlace | None":
        """The task that an object's name lies in, or None."""
        parts = name.split("/")
        match = len(parts) > 3 and _TASK.fullmatch(parts[2])
        return cls(parts[0], parts[1], int(match[1])) if match else None

    @property
    def folder(self) -> str:
        return f"{self.job}/{self.run}/task-{self.index}"

    @property
    def claims(self) -> str:
        return f"{self.folder}/attempts"

    @property
    def commits(self) -> str:
        return f"{self.folder}/commits"

    @property
    def data(self) -> str:
        return f"{self.folder}/data"

    @property
    def marks(self) -> str:
        return f"{self.folder}/finished"

    @property
    def journals(self) -> str:
        return f"{self.folder}/journal"

    def claim(self, attempt: int) -> str:
        return f"{self.claims}/a{attempt:06}.json"

    def commit(self, name: CommitName) -> str:
        return f"{self.commits}/{name.text}"

    def mark(self, name: CommitName) -> str:
        return f"{self.marks}/{name.text}"

    def data_file(self, name: CommitName, *, rank: int, token: str) -> str:
        return f"{self.data}/{name.text.removesuffix('.json')}-r{rank:04}-{token}.safetensors"

    def journal(self, attempt: int, part: int = 0) -> str:
        """Where an attempt appends; `part` grows by one each time that its journal is shortened."""
        suffix = f"-p{part:06}" if part else ""
        return f"{self.journals}/a{attempt:06}{suffix}.jsonl"

    def member_journal(self, attempt: int, rank: int) -> str:
        """Where a rank other than the first appends; no reader of journals takes it for one."""
        return f"{self.journals}/a{attempt:06}-r{rank:04}.jsonl"

    def short_journal(self, attempt: int, part: int) -> str:
        """What stands for all parts of a journal before `part`."""
        return f"{self.journals}/a{attempt:06}-c{part:06}.jsonl"

    # The other way: what an object's whole name stands for, or None for a stray, such as a copy in a folder below.

    def commit_of(self, name: str) -> CommitName | None:
        commit = CommitName.parse(name.rpartition("/")[2])
        return commit if commit is not None and name == self.commit(commit) else None

    def claim_of(self, name: str) -> int | None:
        match = _CLAIM.fullmatch(name.rpartition("/")[2])
        return int(match[1]) if match and name == self.claim(int(match[1])) else None

    def journal_of(self, name: str) -> JournalName | None:
        match = _JOURNAL.fullmatch(name.rpartition("/")[2])
        if match is None:
            return None
        found = JournalName(int(match[1]), int(match[3] or 0), shortened=match[2] == "c")
        own = self.short_journal if found.shortened else self.journal
        return found if name == own(found.attempt, found.part) else None

    def data_of(self, name: str) -> CommitName | None:
        """The commit that a data file was written for."""
        folder, _, file = name.rpartition("/")
        match = _DATA.fullmatch(file)
        return CommitName.parse(f"{match[1]}.json") if match and folder == self.data else None

    def rank_of(self, name: str) -> int | None:
        """The rank that wrote a data file."""
        match = _DATA.fullmatch(name.rpartition("/")[2])
        return int(match[2]) if match else None
