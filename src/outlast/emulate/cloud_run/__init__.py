"""Cloud Run jobs on loopback: what gcloud calls, with the tasks run as processes under the platform's procedure."""
