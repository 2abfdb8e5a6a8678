"""What Slurm says about nodes and jobs: states, reasons, exit codes, answers of its commands."""
