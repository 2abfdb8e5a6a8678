"""The API's description: how one logs in, and which scope each operation needs."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from corral.web.users.scopes import SESSION_ONLY, needed

METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
FREE: Final = "/api/login"
SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token of corral ui token create, with its scopes: read, submit, "
        "administer. See the guide, The page's API.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "corral_session_PORT",
        "description": "A session of POST /api/login; the name ends with the page's port.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "The session's second secret, which the login answers with the cookie.",
    },
}


def describe(app: FastAPI) -> None:
    """Let the description of an application have the security schemes."""
    plain = app.openapi

    def secured() -> dict[str, Any]:
        made = plain()
        made.setdefault("components", {})["securitySchemes"] = SCHEMES
        for path, item in made["paths"].items():
            for method, operation in item.items():
                if method in METHODS:
                    operation["security"] = _security(method.upper(), path)
        return made

    app.openapi = secured


def _security(method: str, path: str) -> list[dict[str, list[str]]]:
    if path.startswith(FREE):
        return []
    session: dict[str, list[str]] = {"cookie": [], "csrf": []}
    scope = needed(method, path)
    if scope is None or f"{method} {path}" in SESSION_ONLY:
        return [session]
    return [{"token": [scope.value]}, session]
