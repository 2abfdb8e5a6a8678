"""Requests and answers against a provider's OpenAPI 3.1 document.

Needs jsonschema. Nothing of the document is loosened, and no call is exempt. Objects are closed: a
field that the document does not have is wrong, although OpenAPI lets a reader ignore it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator

from corral.testing.clouds.wire import Answer, Request

METHODS = ("get", "post", "put", "patch", "delete")


class OpenApi:
    """One document.

    Args:
        document: the parsed JSON.
        failure: schema of responses that refuse a call with a status that the document does not
            list, where the provider's own words give it; None: such a response is wrong.
    """

    def __init__(
        self, document: Mapping[str, Any], failure: Mapping[str, Any] | None = None
    ) -> None:
        self._document = document = _closed(document, set(_merged(document)))
        self._failure = failure
        self._routes: list[tuple[str, re.Pattern[str], Mapping[str, Any]]] = []
        for path, item in document["paths"].items():
            pattern = re.compile(re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(path)))
            self._routes += [(m.upper(), pattern, item[m]) for m in METHODS if m in item]
        # Literal paths before those with parameters: /firewall-rulesets/global.
        self._routes.sort(key=lambda route: route[1].pattern.count("[^/]+"))
        self._validators: dict[int, Draft202012Validator] = {}

    @classmethod
    def load(cls, path: Path, failure: Mapping[str, Any] | None = None) -> OpenApi:
        """Read a document from a file; arguments as for the class."""
        return cls(json.loads(path.read_text()), failure)

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
            return [*wrong, "the call takes no body"]
        return [*wrong, *self._against(schema, request.body)]

    def answer(self, request: Request, answer: Answer) -> list[str]:
        """What is wrong with an answer."""
        operation = self._operation(request)
        if operation is None:
            return []
        responses = operation["responses"]
        response = responses.get(str(answer.status), responses.get("default"))
        if response is None:
            if self._failure is None or answer.status < 400:  # noqa: PLR2004
                return [f"no answer {answer.status} documented"]
            return self._against(self._failure, answer.body)
        schema = _schema(self._resolved(response))
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
        for name, parameter in known.items():
            if parameter.get("required") and name not in request.query:
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
            target: Any = self._document
            for key in str(node["$ref"]).removeprefix("#/").split("/"):
                target = target[key.replace("~1", "/").replace("~0", "~")]
            node = target
        return node

    def _against(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        validator = self._validators.get(id(schema))
        if validator is None:
            # With the components, so that "#/components/schemas/X" resolves.
            rooted = {**schema, "components": self._document.get("components", {})}
            validator = self._validators[id(schema)] = Draft202012Validator(rooted)
        errors: Iterator[Any] = validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]
        return [f"{error.json_path}: {error.message}"[:300] for error in errors]


def _merged(node: Any) -> Iterator[str]:
    """References inside of ``allOf``: such a schema is a part of an object."""
    for key, value in _entries(node):
        if key == "allOf":
            yield from (str(part["$ref"]) for part in value if "$ref" in part)
        yield from _merged(value)


def _entries(node: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(node, dict):
        return cast("dict[str, Any]", node).items()
    return enumerate(cast("list[Any]", node)) if isinstance(node, list) else ()


def _closed(node: Any, merged: Set[str], at: str = "#") -> Any:
    """The document with objects that take no other fields than theirs."""
    if not isinstance(node, dict):
        items = [_closed(value, merged, f"{at}/{n}") for n, value in _entries(node)]
        return items if isinstance(node, list) else node
    closed = {str(k): _closed(v, merged, f"{at}/{k}") for k, v in _entries(cast("Any", node))}
    part = at in merged or re.search(r"/(allOf|anyOf|oneOf)/\d+$", at)
    names = isinstance(closed.get("properties"), dict) and not at.endswith("/properties")
    if part or "additionalProperties" in closed or not (names or "allOf" in closed):
        return closed
    return {**closed, "unevaluatedProperties": False}


def _schema(holder: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for kind, media in holder.get("content", {}).items():
        if "json" in kind:
            return media["schema"]
    return None
