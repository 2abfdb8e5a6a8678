"""Jobs over slurmrestd, for users whom ssh does not reach."""
