"""Machines as podman containers with their own systemd and sshd: images, networks, inventory.

What the provider of containers is made of, and rehearsals of rented clouds too.
"""

from corral.providers.containers.image import ImageInfo, Images
from corral.providers.containers.podman import Podman

__all__ = ["ImageInfo", "Images", "Podman"]
