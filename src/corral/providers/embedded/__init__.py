"""Provider embedded: nodes as podman containers with their own systemd, sshd and address."""
