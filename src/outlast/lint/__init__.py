"""What will not survive an interruption, found in the files that describe a job before it is deployed.

How a file becomes findings:

1. `files` finds the files of a call and reads each once, within bounds; `reading/kinds` tells its language. The result
   is a `Source`.
2. `catalogue` names the checks for each language. A check asks its source for the tree that it needs
   (`source.read(read_yaml)`): the parsers are in `reading/`, each node has its place, and what is missing or filled in
   later is said by the node, never guessed.
3. A family turns trees of any form into one description of the work, and judges that: `cloud_run/job` is made from a
   manifest, a gcloud command line or Terraform, `kubernetes/cases` from every template of pods, `programs/program`
   from Python. `containerfiles`, `slurm` and `clouds` (AWS) have one form each.
4. Texts in texts are read like files of their own: `shells_inside` finds the shells in pipelines and provisioners,
   `inner_text` maps places back. What a command line does with SIGTERM and exit codes is told by `commands/entry`, for
   all families alike.
5. `ignoring` takes out what a comment excuses, `linting` sorts and counts, `telling` says it as text, JSON or SARIF.

A new rule: a `Rule` in its family, with the source and date of its fact (numbers of a platform come from `platforms/`);
a line in the family's check; two bad and two good files in `tests/lint/fixtures/<ID>`; then docs/lint-rules.md is
written anew (`make rules`). A new family is a row in `catalogue`. Severity as decision 25 has it: an error only where
the platform refuses or work is lost for certain; where something is not known, nothing.
"""
