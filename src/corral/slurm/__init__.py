"""Slurm's own language: conf files, versions, states. Pure."""
