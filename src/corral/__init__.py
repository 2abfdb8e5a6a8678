"""Corral: one file in, one proven GPU Slurm cluster out."""
