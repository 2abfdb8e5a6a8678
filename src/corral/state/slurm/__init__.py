"""Which nodes and accounts Slurm has."""
