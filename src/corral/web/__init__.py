"""The page and its JSON API, over Slurm's REST API and Corral's use cases."""
