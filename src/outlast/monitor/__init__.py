"""What is going on with runs, queues and the machines under them: models without any printing."""
