"""Requests and answers against a provider's OpenAPI 3.1 document.

Needs jsonschema. Schemas are those of the document; nothing is loosened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from corral.testing.clouds.wire import Answer, Request

METHODS = ("get", "post", "put", "patch", "delete")


class OpenApi:
    """One document.

    Args:
        document: the parsed JSON.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._routes: list[tuple[str, re.Pattern[str], Mapping[str, Any]]] = []
        for path, item in document["paths"].items():
            pattern = re.compile(re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(path)))
            self._routes += [(m.upper(), pattern, item[m]) for m in METHODS if m in item]
        # Literal paths before those with parameters: /firewall-rulesets/global.
        self._routes.sort(key=lambda route: route[1].pattern.count("[^/]+"))
        self._validators: dict[int, Draft202012Validator] = {}

    @classmethod
    def load(cls, path: Path) -> OpenApi:
        """Read a document from a file."""
        return cls(json.loads(path.read_text()))

    def request(self, request: Request) -> list[str]:
        """What is wrong with a request."""
        operation = self._operation(request)
        if operation is None:
            return [f"the document has no {request.operation}"]
        wrong = list(self._query(operation, request))
        body = self._resolved(operation.get("requestBody", {}))
        schema = _schema(body)
        if request.body is None:
            return [*wrong, *(["the body is missing"] if body.get("required") else [])]
        if schema is None:
            # Clients send an empty object with calls that take no body (Paperspace's own does).
            return wrong if request.body == {} else [*wrong, "the call takes no body"]
        return [*wrong, *self._against(schema, request.body)]

    def answer(self, request: Request, answer: Answer) -> list[str]:
        """What is wrong with an answer."""
        operation = self._operation(request)
        if operation is None:
            return []
        responses = operation["responses"]
        found = responses.get(str(answer.status), responses.get("default"))
        if found is None:
            # Lambda's document lists neither 429 nor 5xx; its text gives their shape.
            return [] if answer.status in (429, 500) else [f"no answer {answer.status} documented"]
        schema = _schema(self._resolved(found))
        if schema is None:
            return [] if answer.body is None else ["the answer has no body"]
        return self._against(schema, answer.body)

    def _operation(self, request: Request) -> Mapping[str, Any] | None:
        for method, pattern, operation in self._routes:
            if method == request.method and pattern.fullmatch(request.path):
                return operation
        return None

    def _query(self, operation: Mapping[str, Any], request: Request) -> Iterator[str]:
        known = {
            p["name"]: p
            for p in map(self._resolved, operation.get("parameters", ()))
            if p["in"] == "query"
        }
        for name, value in request.query.items():
            if name not in known:
                yield f"no query parameter {name}"
                continue
            schema = known[name].get("schema", {})
            for text in self._against(schema, self._typed(schema, value)):
                yield f"query {name}: {text}"
        for name, one in known.items():
            if one.get("required") and name not in request.query:
                yield f"query parameter {name} is missing"

    def _typed(self, schema: Mapping[str, Any], value: str) -> Any:
        """A query's text as what its schema speaks of."""
        kind = self._resolved(schema).get("type", "string")
        if kind == "array":
            return value.split(",")
        if kind in ("integer", "number", "boolean"):
            try:
                return json.loads(value)
            except ValueError:
                return value
        return value

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in node:
            found: Any = self._document
            for key in str(node["$ref"]).removeprefix("#/").split("/"):
                found = found[key.replace("~1", "/").replace("~0", "~")]
            node = found
        return node

    def _against(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        validator = self._validators.get(id(schema))
        if validator is None:
            # The components ride along, so that "#/components/schemas/X" finds its target.
            whole = {**schema, "components": self._document.get("components", {})}
            validator = self._validators[id(schema)] = Draft202012Validator(whole)
        errors: Iterator[Any] = validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]
        return [f"{error.json_path}: {error.message}"[:300] for error in errors]


def _schema(holder: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for kind, media in holder.get("content", {}).items():
        if "json" in kind:
            return media["schema"]
    return None
