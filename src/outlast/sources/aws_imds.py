"""The EC2 instance metadata service, version 2: the interruption of a Spot instance, and the advice to move away.

Facts as of 2026-11-29, from the EC2 guide, "Spot Instance interruption notices", "EC2 instance rebalance
recommendations" and "Use IMDS": a token by PUT; 404 is "nothing announced"; 401 is a token that has run out; some
2 min of notice for `{"action": "terminate"|"stop"|"hibernate", "time": "…Z"}`; poll every 5 s. From a container whose
host has a hop limit of 1 the PUT gets no answer.
"""

from contextlib import suppress

from outlast.disruptions import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.settings import Surroundings
from outlast.sources.metadata_server import LINK_LOCAL, Answer, MetadataServer
from outlast.sources.moments import Moments, moment_text, parse_moment

_TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path, and no password
_ACTION_PATH = "/latest/meta-data/spot/instance-action"
_REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
_TOKEN_SECONDS = 21600
_LONGEST_TOKEN = 1024
_POLL_SECONDS = 5.0
_ANSWER_SECONDS = 3.0
_ACTIONS = ("terminate", "stop", "hibernate")
_OK, _UNAUTHORIZED, _NOT_FOUND = 200, 401, 404


class SpotInstance:
    """What is announced for this instance, by polling."""

    name = "aws-imds"

    def __init__(self, server: MetadataServer, moments: Moments) -> None:
        self._server, self._moments = server, moments
        self._token: str | None = None

    def look(self) -> Look:
        action = self._find(_ACTION_PATH)
        seen = [] if action is None else [self._interruption(action)]
        with suppress(SourceUnavailable):  # advice is not worth losing an interruption for
            rebalance = self._find(_REBALANCE_PATH)
            seen += [] if rebalance is None else [_advice(rebalance)]
        return Look(tuple(seen), _POLL_SECONDS)

    def _interruption(self, answer: Answer) -> Disruption:
        self._moments.hear_date(answer.headers.get("date"))
        said = answer.json()
        action, at = (said.get("action"), parse_moment(said.get("time"))) if isinstance(said, dict) else (None, None)
        if action not in _ACTIONS or at is None:
            raise SourceUnavailable("spot/instance-action names no known action and time")
        return self._moments.judge(Disruption("interruption", f"Spot interruption ({action})", "final"), at)

    def _find(self, path: str) -> Answer | None:
        """None where nothing is announced; a token that has run out is renewed once."""
        answer = self._ask(path)
        if answer.status == _UNAUTHORIZED:
            self._token = None
            answer = self._ask(path)
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise SourceUnavailable(f"{path}: HTTP {answer.status}")
        return answer

    def _ask(self, path: str) -> Answer:
        if self._token is None:
            self._token = self._new_token()
        return self._server.ask(path, {"X-aws-ec2-metadata-token": self._token}, seconds=_ANSWER_SECONDS)

    def _new_token(self) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS), "Content-Length": "0"}
        answer = self._server.ask(_TOKEN_PATH, headers, seconds=_ANSWER_SECONDS, method="PUT")
        token = answer.text
        if answer.status != _OK:
            raise SourceUnavailable(f"no token: HTTP {answer.status}", absent=answer.status == _NOT_FOUND)
        if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise SourceUnavailable("no token: what was answered is none")
        return token


def _advice(answer: Answer) -> Disruption:
    said = answer.json()
    at = parse_moment(said.get("noticeTime")) if isinstance(said, dict) else None
    if at is None:
        raise SourceUnavailable("the rebalance recommendation has no noticeTime")
    return Disruption("rebalance", f"rebalance recommendation of {moment_text(at)}: the risk is elevated", "advisory")


def aws_imds_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The one of this instance."""
    server = MetadataServer(surroundings.env.get("OUTLAST_METADATA_HOST") or LINK_LOCAL)
    return [SpotInstance(server, Moments(surroundings.clock))]
