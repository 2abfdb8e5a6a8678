"""Slurm's configuration files: typed models that write them, and a lossless parser."""
