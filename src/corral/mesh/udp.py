"""Whether UDP leaves a machine and returns, checked before it joins a tailnet. Pure.

A STUN request (RFC 8489) as tailscaled sends it, to the control server's relay: Tailscale's relays
answer no other (they require SOFTWARE "tailnode" and a fingerprint). Without an answer all links
of the machine go through a relay.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from corral.hosts.quote import Script, sh

PORT: Final = 3478
TAILSCALE: Final = "derp1.tailscale.com"
_MAGIC: Final = 0x2112A442
_XOR: Final = 0x5354554E
_ID: Final = b"corral-probe"


def question() -> bytes:
    """A binding request with SOFTWARE and FINGERPRINT."""
    software = struct.pack(">HH", 0x8022, 8) + b"tailnode"
    body = struct.pack(">HHI", 1, len(software) + 8, _MAGIC) + _ID + software
    return body + struct.pack(">HHI", 0x8028, 4, zlib.crc32(body) ^ _XOR)


def udp_script(host: str) -> Script:
    """Prints ``udp yes`` or ``udp no``; bash speaks UDP by /dev/udp."""
    octal = "".join(f"\\{byte:03o}" for byte in question())
    return sh(
        'if [ "$(timeout 5 bash -c \'exec 3<>/dev/udp/$0/$1 && printf "$2" >&3 && '
        "head -c 2 <&3' {host} {port} {text} 2>/dev/null | od -An -tx1 | tr -d ' \\n')\" = 0101 ]; "
        "then echo 'udp yes'; else echo 'udp no'; fi",
        host=host,
        port=PORT,
        text=octal,
    )


def udp_of(text: str) -> str:
    """``yes``, ``no`` or "" from what the script printed."""
    word = text.strip().removeprefix("udp ")
    return word if word in ("yes", "no") else ""
