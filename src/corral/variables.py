"""Environment variables that Corral reads: each name once, for its readers and the reference.

What a provider alone has is in its ``provider.toml``. Programs of nodes and modules that are sent
with jobs import nothing of Corral's: the names that they read are in ``IN_JOBS``, and a test
compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CLUSTER: Final = "CORRAL_CLUSTER"
STATE_DIR: Final = "CORRAL_STATE_DIR"
DEBUG: Final = "CORRAL_DEBUG"
SUDO_PASSWORD_FILE: Final = "CORRAL_SUDO_PASSWORD_FILE"  # noqa: S105  # a variable's name
LOGIN_PASSWORD_FILE: Final = "CORRAL_LOGIN_PASSWORD_FILE"  # noqa: S105  # a variable's name
JUMP_PASSWORD_FILE: Final = "CORRAL_JUMP_PASSWORD_FILE"  # noqa: S105  # a variable's name
REGISTRY_KEY: Final = "CORRAL_REGISTRY_KEY"
NGC_KEY: Final = "NGC_API_KEY"
SLURM_TOKEN: Final = "SLURM_JWT"  # noqa: S105  # a variable's name
HEADSCALE_KEY: Final = "HEADSCALE_API_KEY"
TAILSCALE_KEY: Final = "TAILSCALE_API_KEY"
TAILSCALE_CLIENT: Final = "TAILSCALE_OAUTH_CLIENT_ID"
TAILSCALE_SECRET: Final = "TAILSCALE_OAUTH_CLIENT_SECRET"  # noqa: S105  # a variable's name

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        CLUSTER: "the default cluster",
        STATE_DIR: "where keys, host keys and journals of clusters are kept",
        DEBUG: "1: tracebacks of unexpected errors; SIGUSR1 shows what Corral waits for",
        "NO_COLOR": "anything: no colours",
        SUDO_PASSWORD_FILE: "file, or /dev/fd/N, whose first line is sudo's password on the "
        "machines",
        LOGIN_PASSWORD_FILE: "the same with the password of the first login by ssh",
        JUMP_PASSWORD_FILE: "the same with the password of jump hosts",
        REGISTRY_KEY: "key of the registry that `corral image import` reads",
        NGC_KEY: "the same, where the former is not set",
        SLURM_TOKEN: "token of Slurm for `corral login --rest`, where no file is named",
        HEADSCALE_KEY: "key of a headscale server; with `_FILE` behind it: a file with the key",
        TAILSCALE_KEY: "key of Tailscale's API; with `_FILE`: a file with it",
        TAILSCALE_CLIENT: "OAuth client of Tailscale, in place of a key; with `_FILE`: a file",
        TAILSCALE_SECRET: "that client's secret; with `_FILE`: a file with it",
    }
)
"""For a person at the command line, with what each means."""

IN_JOBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CORRAL_CHECKPOINTS": "folder of the job's checkpoints",
        "CORRAL_JOB_FOLDER": "the job's own folder",
        "CORRAL_DATA_CACHE": "folder of the node's own disk for copies of shards; yours to set",
        "CORRAL_PYTHON": "Python of the ranks, where the job names one",
        "CORRAL_SAMPLE_S": "seconds between samples of the tracked system metrics; yours to set",
        "CORRAL_PROFILE_SKIP": "steps before PyTorch's profiler records; yours to set",
        "CORRAL_PROFILE_STEPS": "steps that it records; yours to set",
    }
)
"""For a job's script."""


def guard_key(cloud: str) -> str:
    """The variable of a separate key for the guard of a cloud that rents machines."""
    return f"{cloud.upper()}_GUARD_API_KEY"


def other_address(cloud: str) -> str:
    """The variable of another address of a cloud's API: a simulated one."""
    return f"CORRAL_{cloud.upper()}_URL"
