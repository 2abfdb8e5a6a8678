"""A ProxyCommand that adds latency: half of the round trip each way.

Usage: delay.py HOST PORT MILLISECONDS-ADDED-TO-A-ROUND-TRIP
"""

from __future__ import annotations

import asyncio
import sys

CHUNK = 1 << 16


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Pass on each chunk ``delay`` seconds after it came, without holding up the ones behind it."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            deadline, data = await queue.get()
            await asyncio.sleep(max(0.0, deadline - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    out = asyncio.create_task(deliver())
    while data := await reader.read(CHUNK):
        queue.put_nowait((loop.time() + delay, data))
    queue.put_nowait((loop.time() + delay, b""))
    await out


async def main(host: str, port: str, milliseconds: str) -> None:
    """Join stdin and stdout with a TCP connection."""
    loop = asyncio.get_running_loop()
    remote_in, remote_out = await asyncio.open_connection(host, int(port))
    here_in = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(here_in), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    here_out = asyncio.StreamWriter(transport, protocol, None, loop)
    half = float(milliseconds) / 2000
    await asyncio.wait(
        [
            asyncio.create_task(pump(here_in, remote_out, half)),
            asyncio.create_task(pump(remote_in, here_out, half)),
        ],
        return_when=asyncio.FIRST_COMPLETED,
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
