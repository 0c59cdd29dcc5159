"""Lint of Kubernetes manifests: what makes pods, what is known of where they run, and what will not survive there."""
