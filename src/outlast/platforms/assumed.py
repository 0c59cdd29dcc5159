"""Numbers that nobody publishes, assumed until attempts have been counted, and the words that say so."""

_UNTIL_COUNTED = "an assumption, until attempts have been counted"

# With outlast's own estimators these priors weigh as much as one interruption (as of 2026-11-29).
SPOT_SECONDS = 3 * 3600.0
SPOT_SOURCE = f"{_UNTIL_COUNTED}: 3 h, as Spot machines live"
WEEKLY_SECONDS = 7 * 24 * 3600.0
WEEKLY_SOURCE = f"{_UNTIL_COUNTED}: weekly maintenance, as of Cloud Run's GPUs"
DAILY_SECONDS = 24 * 3600.0
DAILY_SOURCE = f"{_UNTIL_COUNTED}: one a day"

NOTICE_SHARE = 0.5  # the mean of Beta(1, 1), which knows nothing
NOTICE_SHARE_SOURCE = f"{_UNTIL_COUNTED}: every second one"
