"""What the rules of the page fire on."""

from __future__ import annotations

from typing import Any, Final

from .cases import LAB

OPEN: Final[dict[str, Any]] = {"services": {"ui": True, "page": {"listen": "control"}}}
HOOK: Final = {"name": "chat", "url": "https://hooks.example.org/x"}


def mailed(**changes: Any) -> dict[str, Any]:
    """Mail by a relay, with changes."""
    fields = {"relay": "mail.example.org", "sender": "lab@example.org", **changes}
    notify = {name: value for name, value in fields.items() if value is not None}
    return {"services": {"notify": notify}}


HALF: Final[dict[str, Any]] = {"services": {"ui": True, "page": {"key": "/etc/ssl/key.pem"}}}
HEADER: Final = {"secret_file": "/etc/corral/proxy-secret"}
OIDC: Final = {"issuer": "https://login.example.org", "client": "corral"}
BEHIND: Final = {"names": ["hpc.example.org"]}


def login(ui: bool = True, page: Any = BEHIND, **ways: Any) -> dict[str, Any]:
    return {"services": {"ui": ui, "page": {**page, "login": ways}}}


WEST: Final = {"name": "west", "url": "https://west.example.org:8765"}


def others(*clusters: Any) -> dict[str, Any]:
    return {"services": {"ui": True, "page": {**BEHIND, "clusters": list(clusters)}}}


PAGE: Final[list[tuple[str, dict[str, Any], dict[str, Any], str]]] = [
    ("notify-incomplete", LAB, {"services": {"notify": {}}}, "services.notify"),
    ("notify-incomplete", LAB, mailed(sender=None), "services.notify"),
    ("notify-incomplete", LAB, mailed(user="lab"), "services.notify"),
    ("notify-incomplete", LAB, mailed(webhooks=[{"name": "a"}]), "services.notify.webhooks[0]"),
    (
        "notify-incomplete",
        LAB,
        mailed(webhooks=[HOOK, HOOK]),
        "services.notify.webhooks[1].name",
    ),
    (
        "notify-unencrypted",
        LAB,
        mailed(user="lab", password_file="/x", tls="off"),
        "services.notify.tls",
    ),
    (
        "notify-unencrypted",
        LAB,
        mailed(webhooks=[{**HOOK, "url": "http://hooks.example.org"}]),
        "services.notify.webhooks[0].url",
    ),
    ("page-open", LAB, OPEN, "services.page.listen"),
    ("page-open", LAB, HALF, "services.page"),
    ("page-clusters", LAB, others({**WEST, "name": "lab"}), "services.page.clusters[0].name"),
    ("page-clusters", LAB, others(WEST, WEST), "services.page.clusters[1].url"),
    (
        "page-clusters",
        LAB,
        others({**WEST, "url": "https://HPC.example.org:8765/"}),
        "services.page.clusters[0].url",
    ),
    (
        "page-clusters",
        LAB,
        others({**WEST, "url": "https://west.example.org:70000"}),
        "services.page.clusters[0].url",
    ),
    (
        "page-clusters-apart",
        LAB,
        others({**WEST, "url": "https://west.example.net"}),
        "services.page.clusters[0].url",
    ),
    ("page-without-rest", LAB, {"services.ui": True, "slurm.rest": False}, "services.ui"),
    ("login-without-page", LAB, login(False, header=HEADER), "services.page.login"),
    ("login-header", LAB, login(page={}, header=HEADER), "services.page.login.header"),
    (
        "login-header",
        LAB,
        login(header={**HEADER, "header": "X-Forwarded-For"}),
        "services.page.login.header.header",
    ),
    (
        "login-header",
        LAB,
        login(header={**HEADER, "proxy": "root"}),
        "services.page.login.header.proxy",
    ),
    ("login-oidc", LAB, login(page={}, oidc=OIDC), "services.page.login.oidc"),
    (
        "login-oidc",
        LAB,
        login(oidc={**OIDC, "claim": "email", "scopes": ["profile"]}),
        "services.page.login.oidc.scopes",
    ),
]
