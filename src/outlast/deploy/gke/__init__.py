"""GKE: from a description to manifests, node pools and IAM, and from a manifest that exists to one that survives.

`nodes` says what kind of node the hardware means, `grace` how long a pod may take to leave, `budgets` how often it may
fail and for how long it may run; `pods` makes the pod, `workloads` what starts it, `beside` what stands next to it;
`explained` writes all that with its reasons; `pools` and `cloud` are the commands of gcloud. `target` joins them to a
plan. `reading` and `patching` change manifests that exist.
"""
