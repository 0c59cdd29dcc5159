"""From one small description of a job to everything that a deployment needs, and away again.

`description` is what a job needs, checked; `description_file` reads it from outlast.yaml or pyproject.toml. A target
(`cloud_run`, `gke`) makes a `plan` of it: ordered steps, each with its files, its commands, what they make and how that
is undone; `google_cloud` has the steps that both take. `apply` runs a plan and writes into the `record` what it made;
`teardown` removes just that. `doctor` looks at what a deployment needs before anything is made.
"""
