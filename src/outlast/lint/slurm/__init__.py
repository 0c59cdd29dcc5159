"""Rules for Slurm: batch scripts, and the command lines of sbatch."""
