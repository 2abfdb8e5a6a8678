"""Provider ssh: machines that are there already and belong to the user."""

from corral.providers.ssh.provider import SshProvider as SshProvider
