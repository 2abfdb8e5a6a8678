"""Roles of Slurm's daemons and their packages."""
