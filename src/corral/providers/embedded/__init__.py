"""Provider embedded: nodes as podman containers with their own systemd, sshd and address."""

from corral.providers.embedded.provider import EmbeddedProvider

__all__ = ["EmbeddedProvider"]
