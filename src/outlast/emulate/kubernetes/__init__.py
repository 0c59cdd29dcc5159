"""A cluster on this machine: enough of Kubernetes and GKE for kubectl and the official client to tell no difference."""
