"""Slurm's REST API: its answers as our own records, whatever release gave them. Pure."""
