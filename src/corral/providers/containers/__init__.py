"""Machines as podman containers with their own systemd and sshd: images, networks, inventory.

The provider of containers, simulated clouds, builds of Slurm's packages and bundles use it.
"""
