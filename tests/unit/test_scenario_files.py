"""Scenarios in files: what they say is what happens, and what is wrong with one is said with its line and its key."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli.rehearse import rehearse
from outlast.emulate.scale import TimeScale
from outlast.errors import SettingsError
from outlast.registry import PLATFORMS, platform_named
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.procedures.everywhere import EVERYWHERE
from outlast.rehearse.request import Request
from outlast.rehearse.scenario import Happening, Interruption, Moment, kinds_needed, play
from outlast.rehearse.scenario_file import load_scenario, read_scenario, scenarios_for
from outlast.rehearse.script import read_script
from outlast.rehearse.words import Scene, Timed

FOLDER = Path("/nowhere")


def read(text: str, platform: str = "cloud-run", folder: Path = FOLDER):
    procedure = procedure_on(platform)
    return read_scenario(text, "f.yaml", "f", folder, platform=platform, procedure=procedure)


def test_a_scenario_says_what_happens_to_each_attempt_and_when() -> None:
    found = read("""
about: All forms.
platforms: [cloud-run, local]
speed: 10
attempts:
  - maintenance
  - timeout: {at: 30%}
  - crash-at-a-save: {write: 3, at: 2min}
  - [live-migration: {at: start, pause: 1s}, cancel: {after: 1m30s}]
  - storage-fault: {error: slow, delay: 50ms, lasts: 3}
""")
    assert (found.about, found.speed) == ("All forms.", 10)
    assert [one.kind for one in found.interruptions] == [
        "SIGTERM",
        "SIGTERM",
        "SIGKILL at a save",
        "SIGTERM",
        "storage fault",
    ]
    assert [one.goes_on for one in found.interruptions] == [False, False, False, False, True]
    assert [one.happenings for one in found.interruptions] == [
        (Happening("maintenance"),),
        (Happening("timeout", Moment(share=0.3)),),
        (Happening("crash-at-a-save", Moment(seconds=120.0), (("write", 3),)),),
        (
            Happening("live-migration", Moment(since="start"), (("pause", 1.0),)),
            Happening("cancel", Moment(seconds=90.0, since="previous")),
        ),
        (Happening("storage-fault", None, (("error", "slow"), ("lasts", 3.0), ("delay", 0.05))),),
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "it is empty"),
        ("attempts: [", 1, "this is no YAML"),
        ("attempts:\n  - maintenance\nattempt: 3", 3, "attempt: 'attempt' is not known here; did you mean 'attempts'?"),
        ("attempts: [maintenance]\nattempts: [timeout]", 2, "attempts: 'attempts' is there twice"),
        ("about: x", 1, "needs either attempts"),
        ("attempts: [maintenance]\ntrace: {lives: [3]}", 1, "needs either attempts"),
        ("attempts: maintenance", 1, "attempts: expected a list, found 'maintenance'"),
        ("attempts: []", 1, "attempts: nothing happens"),
        ("attempts:\n  - []", 2, "attempts[0]: nothing happens to it"),
        ("attempts:\n  - maintenance\n  - spot-reclaim", 3, "happens on cloud-run; there are maintenance, timeout"),
        (
            "attempts:\n  - tiemout: {at: 3s}",
            2,
            "'tiemout' is nothing that happens on cloud-run; did you mean 'timeout'?",
        ),
        ("attempts:\n  - {maintenance: , timeout: }", 2, "attempts[0]: one thing at a time"),
        ("attempts:\n  - crash-at-a-save:\n      wriet: 3", 3, "attempts[0].crash-at-a-save.wriet: 'wriet' is not"),
        ("attempts:\n  - crash-at-a-save:\n      write: 0", 3, "write: '0' is not a whole number of 1 or more"),
        ("attempts:\n  - crash-at-a-save:\n      write: [1]", 3, "write: expected a text, found a list"),
        ("attempts:\n  - maintenance:\n      at: soon", 3, "maintenance.at: 'soon' is not a duration"),
        ("attempts:\n  - maintenance:\n      at: -3s", 3, "maintenance.at: '-3s' is not a duration"),
        ("attempts:\n  - maintenance:\n      at: 140%", 3, "'140%' is no share of the work that is left"),
        ("attempts:\n  - maintenance:\n      at: 3s\n      after: 3s", 4, "after: a thing happens `at` a moment"),
        ("attempts:\n  - maintenance:\n      after: 3s", 2, "attempts[0]: `after` needs something before it"),
        ("attempts:\n  - storage-fault:\n      error: ENOSPCE", 3, "did you mean 'ENOSPC'?"),
        ("attempts:\n  - storage-fault:\n      delay: 2h", 3, "storage-fault.delay: 2h is more than 60 s"),
        ("attempts:\n  - - host-error\n    - maintenance", 2, "attempts[0][0]: nothing can follow: after host-error"),
        ("speed: 0\nattempts: [maintenance]", 1, "speed: '0' is not a number above 0"),
        ("given: {pod-grace: 1h}\nattempts: [maintenance]", 1, "given: nothing of cloud-run can be set"),
        ("platforms: [gke-gpu]\nattempts: [maintenance]", 1, "platforms: it is for gke-gpu, and not for cloud-run"),
        ("platforms: [gke]\nattempts: [maintenance]", 1, "platforms[0]: 'gke' is not known here"),
        ("atempts:\n  - maintenance", 1, "atempts: 'atempts' is not known here; did you mean 'attempts'?"),
        ("attempts:\n  - maintenence:\n      at: 3s", 2, "maintenence: 'maintenence' is nothing that happens"),
        ("attempts:\n  - storage-fault: {error: EFOO}", 2, "error: 'EFOO' is not known here; there are ENOSPC, EIO,"),
        ("trace: {lives: [3], with: storm}", 1, "trace.with: 'storm' is nothing that happens on cloud-run"),
        ("trace:\n  file: nothing.json", 2, "/nowhere/nothing.json cannot be read: No such file or directory"),
        ("trace:\n  lives: [3s]\n  from: 1", 2, "trace: it has 1 interruptions, and none from number 1 on"),
        ("trace: {lives: [0s, 0s]}", 1, "trace: these lives have no proportions"),
        ("trace: {file: /dev/zero}", 1, "trace.file: /dev/zero cannot be read: not a regular file"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_its_key(text: str, line: int | None, said: str) -> None:
    with pytest.raises(SettingsError) as found:
        read(text)
    assert str(found.value).startswith(f"f.yaml:{line}: " if line else "f.yaml: ")
    assert said in str(found.value)


def test_what_a_platform_is_set_to_is_checked_too() -> None:
    assert read("given: {pod-grace: 1h}\nattempts: [maintenance]", "gke-gpu").given == (("pod-grace", 3600.0),)
    with pytest.raises(SettingsError, match=r"f.yaml:1: given\.pod-grace: 2h is more than 3600 s"):
        read("given: {pod-grace: 2h}\nattempts: [maintenance]", "gke-gpu")


@pytest.mark.parametrize("platform", list(PLATFORMS))
def test_each_platform_has_a_standard_set_of_what_happens_there(platform: str) -> None:
    facts = platform_named(platform).facts
    procedure = procedure_on(platform)
    named = [name for name, _ in scenarios_for(platform)]
    assert {"standard", "full-disk", "slow-store", "second-attempt", "kill-points"} <= set(named)
    for name in named:
        load_scenario(name, folder=FOLDER, platform=platform, procedure=procedure)
    standard = load_scenario("standard", folder=FOLDER, platform=platform, procedure=procedure)
    own = {word for word in procedure.words if word not in ("storage-fault", "second-live-attempt", "stop")}
    own -= {"rank-killed", "rank-stopped", "ranks-stopped", "node-killed", "node-stopped"}  # see ranks.yaml, --nodes
    happens = {one.word for each in standard.interruptions for one in each.happenings}
    assert {procedure.usual[kind] for kind in kinds_needed(saves=True)} <= happens | {"host-error"}
    of_some = {word for word in own if word.startswith(("rank-", "ranks-", "node-"))}  # rank_ends.py does these
    missing = own - of_some - happens - {"live-migration", "host-error"}
    assert missing == set(), "what the platform does, and its standard set does not"
    request = Request(command=("true",), folder=FOLDER, platform=platform, scenarios=("standard",))
    script = read_script(request)
    assert script.retries(request, facts) >= len(standard.interruptions) - 1


def test_every_word_does_something_on_its_platform() -> None:
    for platform in PLATFORMS:
        procedure = procedure_on(platform)
        own = {name: word for name, word in procedure.words.items() if platform == "local" or name not in EVERYWHERE}
        for name, word in own.items():
            given = (
                {"provisioning": "standard"} if name == "live-migration" and "provisioning" in procedure.given else {}
            )
            with procedure.open_machine(given, TimeScale(10.0)) as machine:
                told = word.all_settings({})
                steps = word.begin(Scene(machine, 30.0, TimeScale(10.0)), told)
            assert all(isinstance(one, Timed) and one.seconds >= 0 for one in steps)
            assert steps or word.kind == "advice", f"{platform}: {name}"


def test_the_command_lists_what_there_is_and_names_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = CliRunner().invoke(rehearse, ["--platform", "gce-spot", "--list-scenarios"])
    assert said.exit_code == 0
    assert "  one-hour-notice " in said.stdout
    assert "    revoked-after: " in said.stdout
    assert "each write gives (ENOSPC, EIO, EDQUOT, slow)" in said.stdout
    assert "what gce-spot is set to (given):\n    machine-type: " in said.stdout
    assert "eviction" not in said.stdout
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("attempts:\n  - maintenance: {att: 3s}\n")
    refused = CliRunner().invoke(rehearse, ["--scenario", "mine.yaml", "--", "true"])
    assert refused.exit_code == 2
    assert "mine.yaml:2: attempts[0].maintenance.att: 'att' is not known here; did you mean 'at'?" in refused.stderr
    assert CliRunner().invoke(rehearse, ["--speed", "0", "--", "true"]).exit_code == 2


def test_scenarios_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text("speed: 2\ngiven: {pod-grace: 1min}\nattempts: [maintenance]")
    (tmp_path / "fast.yaml").write_text("speed: 3\nattempts: [maintenance]")
    (tmp_path / "other.yaml").write_text("speed: 2\ngiven: {pod-grace: 2min}\nattempts: [maintenance]")

    def script(*names: str, **asked: object):
        request = Request(command=("true",), folder=tmp_path, platform="gke-gpu", scenarios=names, **asked)
        return read_script(request)

    with pytest.raises(SettingsError, match="speeds of 2, 3: choose one with --speed"):
        script("slow.yaml", "fast.yaml")
    with pytest.raises(SettingsError, match=r"pod-grace to 60\.0 and to 120\.0"):
        script("slow.yaml", "other.yaml")
    assert script("slow.yaml", "fast.yaml", speed=7.0).speed == 7.0
    with pytest.raises(SettingsError, match="no such file, nor a scenario of that name for gke-gpu; there are"):
        script("nothing")


def test_what_a_proof_lacks_is_added_and_what_ends_no_attempt_happens_in_the_next_one() -> None:
    migration = Interruption("live migration", 1.0, (Happening("live-migration"),), goes_on=True)
    timeout = Interruption("SIGTERM", 1.0, (Happening("timeout"),))
    played = play([migration, timeout, migration], seed=0, saves=True)
    assert [one.kind for one in played] == ["SIGTERM", "SIGKILL at a save", "SIGKILL", "live migration"]
    assert [what.word for what in played[0].happenings] == ["live-migration", "timeout"]
    again = play([migration, timeout, migration], seed=0, saves=True, round_number=1)
    assert [one.kind for one in again] == ["SIGKILL at a save", "SIGKILL", "SIGTERM", "live migration"]
    assert "SIGKILL at a save" not in [one.kind for one in play([timeout], seed=0, saves=False)]


# --- traces -------------------------------------------------------------------------------------------


def moments(trace: str, folder: Path = FOLDER) -> list[Moment | None]:
    return [one.happenings[0].moment for one in read(f"trace: {trace}", folder=folder).interruptions]


def test_a_trace_keeps_the_proportions_of_lives_or_their_lengths() -> None:
    assert moments("{lives: [10min, 20min, 30min], as: seconds}") == [
        Moment(seconds=600.0),
        Moment(seconds=1200.0),
        Moment(seconds=1800.0),
    ]
    # The last machine lives as long as the mean, so that the job is of 80 min; shares are of what is left.
    shares = [one.share for one in moments("{lives: [10min, 20min, 30min]}")]
    assert shares == pytest.approx([10 / 80, 20 / 70, 30 / 50])
    assert len(moments("{lives: [1, 2, 3, 4, 5, 6, 7], take: 3, from: 2, as: seconds}")) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps({"upruns": [[60.0, 1], [999.0, 0], [120.0, 1]]})),
        ("b.csv", "0,add,n1\n0,add,n2\n60000,remove,n1\n120000,remove,n2\n60000,add,n3\n"),
        ("c.csv", ",Time,GPUs\n0,1000.0,4\n1,1060.0,3\n2,1100.0,3\n3,1180.0,2\n"),
        ("d.txt", "2021-12-11, 11:00:00, 4\n2021-12-11, 11:03:00, 2\n2021-12-11, 11:01:00, 3\n"),
    ],
)
def test_traces_are_read_in_the_forms_in_which_they_are_published(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert [one.seconds for one in moments(f"{{file: {name}, as: seconds}}", tmp_path)] == [60.0, 120.0]


@pytest.mark.parametrize("text", ["{", '{"upruns": 3}', "a,b\nc,d\ne,f\n", "x,add\n", ""])
def test_a_file_that_is_no_trace_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(SettingsError, match=r"f.yaml:1: trace\.file: "):
        moments("{file: t}", tmp_path)


def test_a_scenario_that_is_no_text_or_has_no_end_is_refused(tmp_path: Path) -> None:
    procedure = procedure_on("cloud-run")
    (tmp_path / "utf-16").write_bytes("attempts: [maintenance]".encode("utf-16"))
    (tmp_path / "huge").write_bytes(b"#" * (5 << 20))
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("utf-16", "no UTF-8"), ("huge", "more than"), ("fifo", "not a regular file")):
        with pytest.raises(SettingsError, match=f"--scenario {name}: it cannot be read: .*{why}"):
            load_scenario(name, folder=tmp_path, platform="cloud-run", procedure=procedure)
