"""Slurm as the page sees it: its REST API or commands, polled once for all viewers."""
