"""The page: its server, and what it shows beyond Slurm."""
