"""headscale in the lab's internet: the control server, with its own DERP relay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mesh.lab import tools
from tests.mesh.lab.network import Networks, run

PORT = 443


@dataclass(frozen=True)
class Control:
    """One headscale."""

    folder: Path
    networks: Networks

    @property
    def url(self) -> str:
        """Its base URL: an address, since there is no DNS in the lab."""
        return f"https://{self.networks.server}"

    @property
    def authority(self) -> Path:
        """The certificate that signed its own."""
        return self.folder / "ca.pem"

    @property
    def key_file(self) -> Path:
        """A file with an API key."""
        return self.folder / "api.key"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if not self.authority.exists():
            self._certificates()
        config = self.folder / "headscale.yaml"
        config.write_text(_config(self.folder, self.url, self.networks.server))
        log = (self.folder / "headscale.log").open("ab")
        argv = ["ip", "netns", "exec", self.networks.internet, str(tools.folder() / "headscale")]
        process = subprocess.Popen(
            [*argv, "serve", "-c", str(config)], stdout=log, stderr=log, start_new_session=True
        )
        (self.folder / "headscale.pid").write_text(str(process.pid))
        end = time.monotonic() + 60
        while not self.key_file.exists():
            if process.poll() is not None or time.monotonic() > end:
                text = (self.folder / "headscale.log").read_text()[-3000:]
                raise RuntimeError(f"headscale does not start: {text}")
            try:
                key = self.do("apikeys", "create", "--expiration", "24h").strip()
            except RuntimeError:
                time.sleep(0.3)
                continue
            self.key_file.touch(0o600)
            self.key_file.write_text(key)

    def stop(self) -> None:
        file = self.folder / "headscale.pid"
        if not file.exists():
            return
        pid = int(file.read_text())
        try:
            if b"headscale" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGTERM)
        except OSError:
            pass
        file.unlink()

    def do(self, *words: str) -> str:
        """Run headscale's own command line."""
        config = self.folder / "headscale.yaml"
        return run(str(tools.folder() / "headscale"), *words, "-c", str(config))

    def keys(self) -> list[dict[str, object]]:
        """All keys to join with that were ever made."""
        return json.loads(self.do("preauthkeys", "list", "-o", "json")) or []

    def nodes(self) -> list[dict[str, object]]:
        """All machines it knows."""
        return json.loads(self.do("nodes", "list", "-o", "json")) or []

    def _certificates(self) -> None:
        os.umask(0o077)
        at = str(self.folder)
        new = (
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
        )
        run(*new, "-subj", "/CN=mesh lab", "-keyout", f"{at}/ca.key", "-out", f"{at}/ca.pem")
        run(
            *new,
            "-CA",
            f"{at}/ca.pem",
            "-CAkey",
            f"{at}/ca.key",
            "-subj",
            "/CN=headscale",
            "-addext",
            f"subjectAltName=IP:{self.networks.server}",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            f"{at}/server.key",
            "-out",
            f"{at}/server.pem",
        )


def _config(folder: Path, url: str, address: str) -> str:
    settings = {
        "server_url": url,
        "listen_addr": f"{address}:{PORT}",
        "metrics_listen_addr": "127.0.0.1:0",
        "grpc_listen_addr": "127.0.0.1:0",
        "noise": {"private_key_path": f"{folder}/noise.key"},
        "prefixes": {"v4": "100.64.0.0/10", "v6": "fd7a:115c:a1e0::/48"},
        "derp": {
            "server": {
                "enabled": True,
                "region_id": 999,
                "region_code": "lab",
                "region_name": "the lab's relay",
                "stun_listen_addr": f"{address}:3478",
                "private_key_path": f"{folder}/derp.key",
                "automatically_add_embedded_derp_region": True,
                "ipv4": address,
            },
            "urls": [],
            "paths": [],
            "auto_update_enabled": False,
        },
        "disable_check_updates": True,
        "database": {"type": "sqlite", "sqlite": {"path": f"{folder}/db.sqlite"}},
        "tls_cert_path": f"{folder}/server.pem",
        "tls_key_path": f"{folder}/server.key",
        "log": {"level": "info", "format": "text"},
        "policy": {"mode": "database"},
        "dns": {
            "magic_dns": False,
            "override_local_dns": False,
            "base_domain": "lab.internal",
            "nameservers": {"global": []},
        },
        "unix_socket": f"{folder}/headscale.sock",
        "logtail": {"enabled": False},
    }
    return json.dumps(settings, indent=1)
