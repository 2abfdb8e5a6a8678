"""Machines as podman containers with their own systemd and sshd: images, networks, inventory.

What the provider of containers is made of, and rehearsals of rented clouds too.
"""
