"""Roles of services next to Slurm, most of them on the controller."""
