"""What will not survive an interruption, found in the files that describe a job before it is deployed."""
