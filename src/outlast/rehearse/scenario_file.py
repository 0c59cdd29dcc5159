"""Scenarios in YAML: what happens to each attempt, checked against what the platform can do."""

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from outlast.errors import SettingsError
from outlast.registry import PLATFORMS
from outlast.rehearse.scenario import Happening, Interruption, Moment, Scenario, Value
from outlast.rehearse.traces import TRACE_KEYS, read_trace
from outlast.rehearse.words import Procedure, Setting, Word, goes_on
from outlast.yaml_keys import MOST_CHARACTERS, Key, did_you_mean, parse_yaml, read_text

_TOP_KEYS = ("about", "platforms", "given", "speed", "attempts", "trace")
_MOMENTS = ("at", "after")
_SUFFIX = ".yaml"


def scenarios_for(platform: str) -> list[tuple[str, str]]:
    """Those that come with outlast and suit the platform: the name to ask for, and what it is about.

    A file NAME-PLATFORM.yaml is NAME there.
    """
    found = []
    for file, text in _packaged_texts():
        top = parse_yaml(text, f"{file}{_SUFFIX}").fields(_TOP_KEYS)
        platforms = _platforms_in(top)
        if not platforms or platform in platforms:
            name = file.removesuffix(f"-{platform}")
            found.append((name, top["about"].text()))
    return sorted(found)


def load_scenario(asked: str, *, folder: Path, platform: str, procedure: Procedure) -> Scenario:
    """The scenario in a file, relative to `folder`, or of a name that comes with outlast.

    Raises SettingsError naming the file, the line and the key of what makes no sense on the platform.
    """
    known = dict(_packaged_texts())
    named = f"{asked}-{platform}" if f"{asked}-{platform}" in known else asked
    if named in known:
        return read_scenario(known[named], f"{named}{_SUFFIX}", asked, folder, platform=platform, procedure=procedure)
    path = folder / asked
    try:
        text = read_text(path, most_bytes=4 * MOST_CHARACTERS)
    except (OSError, ValueError) as error:
        if path.exists():
            raise SettingsError(f"--scenario {asked}: it cannot be read: {error}") from error
        names = ", ".join(name for name, _ in scenarios_for(platform))
        raise SettingsError(
            f"--scenario {asked}: there is no such file, nor a scenario of that name for {platform}; there are {names}"
        ) from error
    return read_scenario(text, asked, path.stem, path.parent, platform=platform, procedure=procedure)


def read_scenario(text: str, file: str, name: str, folder: Path, *, platform: str, procedure: Procedure) -> Scenario:
    """The scenario that `text` holds; `folder` is where the files lie that it names."""
    whole = parse_yaml(text, file)
    top = whole.fields(_TOP_KEYS)
    platforms = _platforms_in(top)
    if platforms and platform not in platforms:
        top["platforms"].wrong(f"it is for {', '.join(platforms)}, and not for {platform}")
    if ("attempts" in top) == ("trace" in top):
        whole.wrong("it needs either attempts, a list of what happens to each, or a trace")
    if "attempts" in top:
        interruptions = [_attempt(key, procedure, platform) for key in top["attempts"].items()]
        if not interruptions:
            top["attempts"].wrong("nothing happens to any attempt")
    else:
        interruptions = _replayed(top["trace"], folder, procedure, platform)
    _check_order(top, interruptions)
    return Scenario(
        name=name,
        about=top["about"].text() if "about" in top else "",
        interruptions=tuple(interruptions),
        given=_settings(top["given"], procedure.given, platform) if "given" in top else (),
        speed=top["speed"].number_above_0() if "speed" in top else 1.0,
    )


def _packaged_texts() -> Iterator[tuple[str, str]]:
    for entry in resources.files("outlast.rehearse").joinpath("scenarios").iterdir():
        if entry.name.endswith(_SUFFIX):
            yield entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")


def _platforms_in(top: dict[str, Key]) -> tuple[str, ...]:
    return tuple(key.choice(tuple(PLATFORMS)) for key in top["platforms"].items()) if "platforms" in top else ()


def _attempt(key: Key, procedure: Procedure, platform: str) -> Interruption:
    """One thing, or a list of what happens in the same attempt."""
    things = key.items() if key.is_list else [key]
    if not things:
        key.wrong("nothing happens to it")
    read = [_happening(thing, procedure, platform) for thing in things]
    for thing, (happening, word) in list(zip(things, read, strict=True))[:-1]:
        if not _goes_on(happening, word) and word.kind != "SIGTERM":
            thing.wrong(f"nothing can follow: after {happening.word} the attempt is over")
    happening, word = read[-1]
    return Interruption(
        kind=word.kind_with(dict(happening.settings)),
        share=1.0,
        happenings=tuple(one for one, _ in read),
        goes_on=_goes_on(happening, word),
    )


def _goes_on(happening: Happening, word: Word) -> bool:
    settings = dict(happening.settings)
    return goes_on(word.kind_with(settings), settings)


def _happening(key: Key, procedure: Procedure, platform: str) -> tuple[Happening, Word]:
    """`word`, or `word: {setting: value}`."""
    if key.is_text:
        name, body = key.text(), None
    else:
        entries = list(key.entries())
        if len(entries) != 1:
            key.wrong("one thing at a time; write several that happen to one attempt as a list")
        ((name, body),) = entries
    if name not in procedure.words:
        (body or key).misnamed(_unknown(name, procedure, platform))
    word = procedure.words[name]
    if body is None:
        return Happening(name), word
    fields = body.fields((*_MOMENTS, *word.settings))
    if len([one for one in _MOMENTS if one in fields]) > 1:
        fields["after"].wrong("a thing happens `at` a moment of the attempt, or `after` what came before, not both")
    moment = _moment(fields)
    settings = tuple((each, _value(fields[each], setting)) for each, setting in word.settings.items() if each in fields)
    return Happening(name, moment, settings), word


def _unknown(name: str, procedure: Procedure, platform: str) -> str:
    return f"{name!r} is nothing that happens on {platform}{did_you_mean(name, tuple(procedure.words))}"


def _moment(fields: dict[str, Key]) -> Moment | None:
    if "after" in fields:
        return Moment(seconds=fields["after"].seconds(), since="previous")
    if "at" not in fields:
        return None
    key = fields["at"]
    said = key.text()
    if said == "start":
        return Moment(since="start")
    if said.endswith("%"):
        number = said.removesuffix("%").strip()
        if not number.replace(".", "", 1).isdigit() or not 0 <= float(number) <= 100:
            key.wrong(f"{said!r} is no share of the work that is left, from 0% to 100%")
        return Moment(share=float(number) / 100)
    return Moment(seconds=key.seconds())


def _settings(key: Key, known: Mapping[str, Setting], platform: str) -> tuple[tuple[str, Value], ...]:
    if not known:
        key.wrong(f"nothing of {platform} can be set")
    return tuple((name, _value(one, known[name])) for name, one in key.fields(tuple(known)).items())


def _value(key: Key, setting: Setting) -> Value:
    if setting.reads == "duration":
        return key.seconds(most=setting.most)
    return key.count(least=setting.least) if setting.reads == "count" else key.choice(setting.choices)


def _replayed(key: Key, folder: Path, procedure: Procedure, platform: str) -> list[Interruption]:
    """Each machine of the trace is an attempt, which lives for its share of the work, or for as long as it did."""
    fields = key.fields(TRACE_KEYS)
    name = fields["with"].text() if "with" in fields else procedure.usual["SIGTERM"]
    if name not in procedure.words:
        fields["with"].wrong(_unknown(name, procedure, platform))
    word = procedure.words[name]
    moments = read_trace(key, fields, folder)
    return [Interruption(word.kind, 1.0, (Happening(name, moment),)) for moment in moments]


def _check_order(top: dict[str, Key], interruptions: list[Interruption]) -> None:
    for place, one in enumerate(interruptions):
        if one.happenings[0].moment is not None and one.happenings[0].moment.since == "previous":
            top["attempts"].items()[place].wrong("`after` needs something before it in the same attempt; write `at`")
