"""A gated model of a hub, asked for as Hugging Face's library does: a stand-in answers on loopback.

It gives the file to who sends the right token, and 401 to everybody else, as the hub does for a
model that one has to ask for.
"""

import hashlib
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TEXT = b'{"model_type": "llama"}'
COMMIT = "0" * 39 + "1"
seen = []


class Hub(BaseHTTPRequestHandler):
    """The path that a file of a model has at the hub."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, *, with_body):
        given = self.headers.get("Authorization", "")
        seen.append(given)
        known = self.path == "/lab/gated/resolve/main/config.json"
        good = given == "Bearer hf_secret"
        self.send_response(200 if known and good else 401)
        if known and good:
            self.send_header("ETag", f'"{hashlib.sha256(TEXT).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(TEXT)))
        else:
            self.send_header("X-Error-Code", "GatedRepo")
            self.send_header("Content-Length", "0")
        self.end_headers()
        if with_body and known and good:
            self.wfile.write(TEXT)

    def log_message(self, *words):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
# Before the library is imported: it reads them then.
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
os.environ["HF_HOME"] = tempfile.mkdtemp()

from huggingface_hub import hf_hub_download  # noqa: E402
from huggingface_hub.errors import GatedRepoError  # noqa: E402

path = hf_hub_download("lab/gated", "config.json")
print("with the file", Path(path).read_bytes() == TEXT)
try:
    hf_hub_download("lab/gated", "config.json", token=False, cache_dir=tempfile.mkdtemp())
    print("without it taken")
except GatedRepoError:
    print("without it refused")
print("sent", "Bearer hf_secret" in seen, "" in seen)
