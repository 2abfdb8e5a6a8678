"""What Slurm reports about nodes and jobs: states, reasons, exit codes, answers of its commands."""
