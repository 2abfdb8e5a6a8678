"""What pollers read of Slurm: nodes, once for all who may see them, and jobs."""
