"""The doctor: whether a job could be deployed and would survive, looked at before anything is made.

    findings.py      one finding: what was looked at, its state, why, and the command that mends it
    programs.py      gcloud, kubectl and others, asked with a time limit, each question once
    troubles.py      what a program's refusal means: not logged in, not allowed, not there, no such API
    cases.py         what the checks are given
    examining.py     which checks a description needs, all of them side by side
    this_machine.py  what can be looked at without a description
    plans.py         whether `deploy` takes the description, and which APIs and roles its plan needs
    account.py       login, project, billing        roles.py       what the caller may do, and which APIs are on
    quotas.py        GPUs of a region               buckets.py     the bucket, its region, a real write
    images.py        the image is there             entry_points.py  whether SIGTERM reaches the program
    saves.py         save time against the grace    clusters.py, node_pools.py, identities.py  a GKE cluster
    slurm.py         a Slurm site

Nothing is changed, but for one small object that is written and deleted again.
"""
