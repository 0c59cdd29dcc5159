"""Rules for Cloud Run jobs, however they are described: a manifest, a gcloud command line, Terraform."""
