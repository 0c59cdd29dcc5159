"""Where a Pub/Sub queue is, read from its URL: the subscription, the topic and the ledger."""

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, unquote

from outlast.errors import SettingsError

# A letter, then 2 to 254 letters, digits and -_.~+% (cloud.google.com/pubsub/docs/pubsub-basics#resource_names,
# 2026-11-30).
_NAME = re.compile(r"[A-Za-z][\w.~+%-]{2,254}", re.ASCII)
_TOPIC = re.compile(r"projects/([^/]+)/topics/([^/]+)")
_SHAPE = "pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC&ledger=sqlite:////absolute.db"


@dataclass(frozen=True, slots=True)
class PubsubAddress:
    """A subscription, and where its topic and its ledger are; `topic` and `ledger` are None where the URL has none.

    `url` is the whole, and may hold the ledger's password.
    """

    url: str
    project: str
    subscription_id: str
    topic: str | None
    ledger: str | None

    @property
    def subscription(self) -> str:
        """The subscription's full name."""
        return f"projects/{self.project}/subscriptions/{self.subscription_id}"

    @property
    def shown(self) -> str:
        """The setting, for messages."""
        return f"queue='pubsub://{self.project}/{self.subscription_id}'"

    def with_ledger(self, ledger: str) -> "PubsubAddress":
        """The same with a ledger, so that another process finds it, too."""
        separator = "&" if "?" in self.url else "?"
        return replace(self, url=f"{self.url}{separator}ledger={quote(ledger, safe='/:@')}", ledger=ledger)


def read_address(url: str) -> PubsubAddress:
    """Reads ``pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC&ledger=URL``; raises SettingsError for another shape.

    TOPIC is a topic of the same project, or projects/P/topics/T.
    """
    place, _, query = url.partition("://")[2].partition("?")
    project, _, name = (unquote(part) for part in place.partition("/"))
    if not project or _NAME.fullmatch(name) is None:
        raise SettingsError(f"queue='pubsub://{place}' names no subscription; write {_SHAPE}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    strange = sorted(set(options) - {"topic", "ledger"})
    if strange:
        raise SettingsError(
            f"queue='{url.partition('?')[0]}': option {strange[0]!r} is not known; there are topic and ledger"
        )
    topic = options.get("topic")
    if topic is not None:
        whole = topic if "/" in topic else f"projects/{project}/topics/{topic}"
        match = _TOPIC.fullmatch(whole)
        if match is None or _NAME.fullmatch(match[2]) is None:
            raise SettingsError(f"queue='pubsub://{place}': topic={topic!r} is no topic's name; write {_SHAPE}")
        topic = whole
    return PubsubAddress(url, project, name, topic, options.get("ledger") or None)
