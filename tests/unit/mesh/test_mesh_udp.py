"""The query that checks whether outgoing UDP works."""

from __future__ import annotations

import zlib

from corral.mesh.link import question, udp_of, udp_script


def test_the_question_is_one_that_tailscales_relays_answer() -> None:
    packet = question()
    assert packet[:8] == bytes.fromhex("0001001421 12a442".replace(" ", ""))
    assert b"tailnode" in packet
    assert int.from_bytes(packet[-4:]) == zlib.crc32(packet[:-8]) ^ 0x5354554E


def test_answers() -> None:
    assert [udp_of(t) for t in ("udp yes\n", "udp no", "", "udp maybe", "yes and no")] == [
        "yes",
        "no",
        "",
        "",
        "",
    ]
    assert "/dev/udp" in str(udp_script("198.18.1.1"))
