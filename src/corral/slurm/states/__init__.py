"""States of nodes and jobs, reasons and exit codes, as Slurm reports them. Pure."""
