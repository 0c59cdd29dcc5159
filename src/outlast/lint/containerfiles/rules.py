"""The rules that are for Dockerfiles alone."""

from outlast.lint.rule import ERROR, Rule

NOT_JSON = Rule(
    "CR030",
    ERROR,
    "a list that is no JSON is a shell form",
    "Docker takes a list for the exec form only when it is JSON: double quotes, no comma at the end. Anything else is "
    "handed to the shell as text, which looks for a program named `[...`, and the container does not start.",
    'write it as JSON: CMD ["python", "train.py"]',
    "Docker, Dockerfile reference, Shell and exec form (2026-11)",
)
RULES = (NOT_JSON,)
