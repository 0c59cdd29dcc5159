"""Writes what monitoring systems load: alert rules, a dashboard, an alert policy."""

import json
from pathlib import Path

import yaml

from outlast.errors import SettingsError
from outlast.metrics.alerts import cloud_run_policy, gke_rules, prometheus_rules
from outlast.metrics.dashboard import dashboard

_HEAD = "# Written by `outlast metrics --write`; docs/howto/metrics.md says what each number is.\n"


def as_yaml(value: object) -> str:
    """As people would write it: in order, one expression a line."""
    return _HEAD + yaml.safe_dump(value, sort_keys=False, width=10_000, allow_unicode=True)


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def texts() -> dict[str, str]:
    """The files, by name."""
    return {
        "outlast-rules.yaml": as_yaml(prometheus_rules()),
        "outlast-rules-gke.yaml": as_yaml(gke_rules()),
        "outlast-dashboard.json": _as_json(dashboard()),
        "outlast-cloud-run-alert.json": _as_json(cloud_run_policy()),
    }


def write_files(folder: Path) -> list[Path]:
    """Writes all of them, over those that are there; raises SettingsError where that cannot be done."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts().items():
            path = folder / name
            path.write_text(text)
            written.append(path)
    except OSError as error:
        raise SettingsError(f"--write {str(folder)!r}: {error}; choose another folder") from error
    return written
