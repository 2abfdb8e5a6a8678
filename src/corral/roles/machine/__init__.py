"""Roles of a machine itself, below Slurm."""
