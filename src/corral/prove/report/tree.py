"""HTML as a tree: text becomes text and never markup, by the serializer and not by care. Pure."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

Node = ET.Element
# What no document may hold (HTML, 13.2.3.5: control characters), and what turns the reading
# direction of the text around it, so that a name would look like another one.
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff"
    "\ud800-\udfff]"
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def cleaned(text: str) -> str:
    """Text without terminal colours; characters that no page may hold become U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", _ANSI.sub("", text))


def h(tag: str, *children: Node | str, **attributes: object) -> Node:
    """An element. Attributes: ``class_`` gives ``class``, ``stroke_width`` gives ``stroke-width``.

    None as a value leaves the attribute out, True gives it without a value's meaning.
    """
    node = ET.Element(tag)
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
        node.set(key, cleaned("" if value is True else _number(value)))
    for child in children:
        add(node, child)
    return node


def add(parent: Node, child: Node | str) -> None:
    """Append an element or text."""
    if isinstance(child, ET.Element):
        parent.append(child)
        return
    text = cleaned(child)
    if len(parent):
        last = parent[-1]
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def page(title: str, style: str, *body: Node) -> str:
    """A whole document. Nothing is loaded from anywhere, and no script runs in it."""
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h(
            "meta",
            **{
                "http-equiv": "Content-Security-Policy",
                "content": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
                "form-action 'none'",
            },
        ),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", name="generator", content="Corral"),
        h("title", title),
        h("style", style),
    )
    document = h("html", head, h("body", *body), lang="en")
    return f"<!doctype html>\n{ET.tostring(document, encoding='unicode', method='html')}\n"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
