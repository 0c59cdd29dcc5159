"""How a command reaches the main program: who hears SIGTERM on the way, and whether the exit code comes back."""
