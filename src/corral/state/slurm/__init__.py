"""Accounts and reservations of Slurm, and nodes that leave the cluster."""
