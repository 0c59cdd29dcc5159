"""URLs for people show no password, wherever it stands."""

import pytest

from outlast.urls import masked


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s@cret@h/d?table=t", "postgresql://u:***@h/d?table=t"),
        ("postgresql://h/d?password=secret&table=t", "postgresql://h/d?password=***&table=t"),
        ("postgresql://h/d?sslpassword=secret", "postgresql://h/d?sslpassword=***"),
        (
            "pubsub://p/s?topic=t&ledger=postgresql://h/d?password=secret",
            "pubsub://p/s?topic=t&ledger=postgresql://h/d?password=***",
        ),
        (
            "pubsub://p/s?ledger=postgresql://h/d%3Fpassword%3Dsecret%26queue%3Dq",
            "pubsub://p/s?ledger=postgresql://h/d%3Fpassword%3D***%26queue%3Dq",
        ),
        ("jsonl:a/b.jsonl", "jsonl:a/b.jsonl"),
        ("sqlite:////a/b.db?table=passwords", "sqlite:////a/b.db?table=passwords"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_password_of_a_ledger_is_not_shown_either() -> None:
    assert "secret" not in masked("pubsub://p/s?topic=t&ledger=postgresql://u:secret@h/d%3Fqueue%3Dq")
