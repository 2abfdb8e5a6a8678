"""A mail server and a webhook on loopback; prints what they get, a line of JSON each.

On a node with python3-aiosmtpd.
"""

from __future__ import annotations

import json
import sys
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller  # pyright: ignore[reportMissingImports]


def note(**entry: object) -> None:
    print(json.dumps(entry), flush=True)


class Mailbox:
    """Keeps each message."""

    async def handle_DATA(self, server: object, session: object, envelope: object) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=default)  # pyright: ignore
        headers = {name: str(value) for name, value in mail.items()}
        to = envelope.rcpt_tos  # pyright: ignore
        note(mail=to, headers=headers, text=mail.get_content())  # pyright: ignore
        return "250 kept"


class Hook(BaseHTTPRequestHandler):
    """Keeps each body."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note(hook=self.path, body=body)
        self._answer(b"ok")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    mail, hook = int(sys.argv[1]), int(sys.argv[2])
    Controller(Mailbox(), hostname="127.0.0.1", port=mail).start()
    ThreadingHTTPServer(("127.0.0.1", hook), Hook).serve_forever()
