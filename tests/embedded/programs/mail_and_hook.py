"""A mail server, a webhook and a Prometheus on loopback; prints what they get, a line of JSON each.

On a node with python3-aiosmtpd. Prometheus answers that one of two GPUs was busy all the time.
"""

from __future__ import annotations

import json
import sys
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

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
    """Keeps each body; answers as Prometheus too."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note(hook=self.path, body=body)
        self._answer(b"ok")

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)["query"][0]
        seconds = "100000"
        labels = [{"of": "busy"}, {"of": "measured"}]
        if asked.startswith("sum by"):
            labels = [{"node": "node0", "gpu": "0"}]
        result = [{"metric": {**label, "jobid": "1"}, "value": [0, seconds]} for label in labels]
        self._answer(json.dumps({"data": {"result": result}}).encode())

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
