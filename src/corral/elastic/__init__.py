"""Nodes that come and go with the jobs: Slurm's marks read, machines rented and ended."""
