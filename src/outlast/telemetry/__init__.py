"""What a job's own process tells monitoring systems, made of the events that its journal gets."""
