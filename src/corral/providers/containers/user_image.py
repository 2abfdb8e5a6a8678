"""A user's own image made a node image once: systemd and sshd put in, then committed."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import join, sh
from corral.providers.containers import machine, recipe
from corral.providers.containers.podman import Podman

BUILD_LABEL: Final = "corral.build"
DERIVE_S: Final = 900.0
_MARK: Final = "corral-os="
_NOT_DEBIAN: Final = 64

SCRIPT: Final = join(
    [
        sh(
            """set -eu
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
case $ID in debian|ubuntu) ;; *) echo "this is $ID" >&2; exit {refused};; esac
printf '%s\\n' '#!/bin/sh' 'exit 101' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get -q -o Acquire::Retries=2 update
apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io install {needed}
rm -f /usr/sbin/policy-rc.d
apt-get clean
rm -rf /var/lib/apt/lists/*
echo {mark}$ID:$VERSION_ID
set -- ''""",
            refused=_NOT_DEBIAN,
            needed=list(recipe.NEEDED),
            mark=_MARK,
        ),
        recipe.settle(recipe.RECIPES["debian"]),
    ]
)


async def base_id(podman: Podman, image: str) -> str:
    """Id of the user's image.

    Raises:
        CorralError: NOT_FOUND, podman does not have it.
    """
    end = await podman.ended("image", "inspect", "--format", "{{.Id}}", image)
    if end.status != 0:
        raise CorralError(
            Code.NOT_FOUND,
            f"podman has no image {image}",
            tail=end.stderr.decode(errors="replace").strip(),
            hint="check its name with podman images, or leave image: out to have one built",
        )
    return end.stdout.decode().strip().removeprefix("sha256:")


async def pull(podman: Podman, image: str, emit: Emit) -> None:
    """Fetch the user's image when it is not here; one under localhost/ is the user's to make.

    Raises:
        CorralError: NOT_FOUND or PROVIDER_FAILED.
    """
    if image.startswith("localhost/"):
        return
    if (await podman.ended("image", "exists", image)).status != 0:
        emit(Event(Kind.NOTE, "image", message=f"pulling {image}"))
        await podman.text("pull", "--quiet", image, timeout=DERIVE_S)


def reference(base: str) -> str:
    """Reference of what is derived from a base: digest of the base and of what is done to it."""
    digest = hashlib.sha256(f"{base}\n{SCRIPT}".encode()).hexdigest()
    return f"{recipe.REPOSITORY}:own-{digest[:12]}"


async def derive(podman: Podman, image: str, name: str, emit: Emit) -> str:
    """Make the node image and give its id; it has no tag yet.

    Raises:
        CorralError: IMAGE_FAILED, with apt's last lines.
    """
    base = await base_id(podman, image)
    emit(Event(Kind.NOTE, "image", message=f"installing systemd and sshd into {image}"))
    work = f"corral-build-{secrets.token_hex(4)}"
    # The host's network, not a bridge: its proxies and name service work as they do for its apt.
    argv = ["run", "--name", work, "--label", f"{BUILD_LABEL}=1", "--network", "host", "--no-hosts"]
    argv += ["--pull=never", "--user", "0", "--entrypoint", "/bin/sh"]
    for kind, value in machine.host_limits().items():
        argv += ["--ulimit", f"{kind}={value}:{value}"]
    end = await podman.ended(*argv, image, "-c", SCRIPT, timeout=DERIVE_S)
    try:
        text = end.stdout.decode(errors="replace")
        system = next((v for v in text.splitlines() if v.startswith(_MARK)), "")
        if end.status != 0 or not system:
            raise CorralError(
                Code.IMAGE_FAILED,
                f"{image} could not be made a node image",
                command=" ".join([*podman.base, *argv, image]),
                status=end.status,
                tail=_tail(end.stdout + b"\n" + end.stderr),
                hint="only Debian and Ubuntu images can be nodes"
                if end.status == _NOT_DEBIAN
                else "check that apt-get update works inside that image",
            )
        labels = {
            recipe.LABEL: name,
            recipe.OS_LABEL: system.removeprefix(_MARK),
            recipe.BASE_LABEL: base,
        }
        changes = [f"--change=LABEL {key}={value}" for key, value in labels.items()]
        text = await podman.text("commit", "--quiet", *changes, work, timeout=DERIVE_S)
        return text.strip().removeprefix("sha256:")
    finally:
        await podman.ended("rm", "--force", "--ignore", work)


async def sweep(podman: Podman) -> None:
    """Remove containers of killed derivations; only under the lock."""
    text = await podman.text(
        "ps", "--all", "--filter", f"label={BUILD_LABEL}", "--format", "{{.Names}}"
    )
    if text.split():
        await podman.ended("rm", "--force", "--ignore", *text.split())


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-15:])
