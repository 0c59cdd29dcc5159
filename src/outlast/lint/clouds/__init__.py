"""Rules for AWS: Batch job definitions and ECS instances, in CloudFormation, Terraform, JSON and command lines."""
