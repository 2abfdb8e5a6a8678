"""The page: its server, tokens, and what it shows in addition to Slurm: logs, history."""
