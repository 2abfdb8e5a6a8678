"""The short check of a rented machine before it may take work."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script

CHECK_S: Final = 120.0

# Seven of eight gpu_1x_h100_sxm5 came up with GPUs that no program could open (F55): nvidia-smi
# must answer for each, where there is one; device files alone are what a rehearsal has.
CHECK: Final[Script] = Script(
    "set -e\n"
    "[ -d /run/systemd/system ] || { echo 'systemd is not running'; exit 0; }\n"
    '[ "$(df --output=avail -BG / | tail -1 | tr -dc 0-9)" -ge 5 ] || '
    "{ echo 'less than 5 GiB are free on /'; exit 0; }\n"
    "if command -v nvidia-smi >/dev/null; then\n"
    "n=$(timeout 60 nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | grep -c GPU-"
    " || true)\n"
    "else n=$(ls /dev | grep -c '^nvidia[0-9][0-9]*$' || true); fi\n"
    'echo "gpus $n"'
)


async def fault_of(fleet: Fleet, node: str, gpus: int) -> CorralError | None:
    """Why a machine must not take work, None when it may.

    Args:
        fleet: reaches it.
        node: its name.
        gpus: how many GPUs it must have.
    """
    try:
        answer = await fleet.run(node, CHECK, timeout=CHECK_S)
    except CorralError as error:
        return error
    output = answer.stdout.strip()
    if output == f"gpus {gpus}" or (output.startswith("gpus ") and int(output[5:]) >= gpus):
        return None
    what = f"{output[5:]} of {gpus} GPUs answer" if output.startswith("gpus ") else output
    return CorralError(
        Code.NOT_GOOD,
        what or "its check printed nothing",
        node=node,
        tail=answer.tail,
        hint="it is ended and another one rented",
    )
