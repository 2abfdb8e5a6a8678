"""Provider embedded: nodes as podman containers with their own systemd, sshd and address."""

from corral.providers.embedded.image import ImageInfo, Images
from corral.providers.embedded.podman import Podman
from corral.providers.embedded.provider import EmbeddedProvider

__all__ = ["EmbeddedProvider", "ImageInfo", "Images", "Podman"]
