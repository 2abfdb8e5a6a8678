"""Logins without a Slurm token: a proxy's header; a program of root's that makes the tokens."""
