"""Argument beats environment beats platform."""

import pytest

from outlast.errors import EXIT_HUMAN, SettingsError
from outlast.settings import look_around

_CLOUD_RUN = {"CLOUD_RUN_JOB": "train", "CLOUD_RUN_EXECUTION": "train-x7k2p"}


def test_the_platform_is_found_in_the_environment() -> None:
    here = look_around(_CLOUD_RUN)
    assert here.facts.name == "cloud-run"
    assert here.identity.job == "train"
    assert look_around({}).facts.name == "local"


def test_an_argument_beats_the_variable_which_beats_detection() -> None:
    assert look_around({**_CLOUD_RUN, "OUTLAST_PLATFORM": "local"}).facts.name == "local"
    assert look_around({**_CLOUD_RUN, "OUTLAST_PLATFORM": "local"}, platform="cloud-run").facts.name == "cloud-run"


def test_the_grace_comes_from_the_argument_then_the_variable_then_the_platform() -> None:
    told = {**_CLOUD_RUN, "OUTLAST_GRACE": "7s"}
    assert look_around(_CLOUD_RUN).grace_seconds == 10
    assert look_around(told).grace_seconds == 7
    assert look_around(told, grace="9s").grace_seconds == 9
    assert look_around(told, grace=0).grace_seconds == 0
    assert look_around({"OUTLAST_GRACE": "7"}).grace_seconds == 7


def test_the_margin_is_a_fifth_of_the_grace_and_30_seconds_at_most() -> None:
    assert look_around(_CLOUD_RUN).margin_seconds == 2
    assert look_around({}, grace="1h").margin_seconds == 30


def test_the_interrupted_exit_code_can_be_set() -> None:
    assert look_around({}).interrupted_exit_code == 143
    assert look_around({"OUTLAST_EXIT_CODE": "0"}).interrupted_exit_code == 0
    assert look_around({"OUTLAST_EXIT_CODE": " 75 "}).interrupted_exit_code == 75
    assert look_around({"OUTLAST_EXIT_CODE": ""}).interrupted_exit_code == 143


@pytest.mark.parametrize("text", ["-1", "256", "1.5", "none", "²", "+3"])
def test_an_impossible_exit_code_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="OUTLAST_EXIT_CODE") as refused:
        look_around({"OUTLAST_EXIT_CODE": text})
    assert refused.value.code == EXIT_HUMAN


def test_what_makes_no_sense_is_named() -> None:
    with pytest.raises(SettingsError, match="OUTLAST_GRACE='soon'"):
        look_around({"OUTLAST_GRACE": "soon"})
    with pytest.raises(SettingsError, match="grace='soon'"):
        look_around({}, grace="soon")
    with pytest.raises(SettingsError, match=r"'mars' is not known .*; there are cloud-run"):
        look_around({"OUTLAST_PLATFORM": "mars"})


def test_logs_are_json_only_where_they_are_collected() -> None:
    assert look_around(_CLOUD_RUN).console.as_json
    assert not look_around({}).console.as_json
