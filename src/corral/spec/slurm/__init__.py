"""What rules of the cluster file read of Slurm: its releases, and the keys of slurm.conf."""
