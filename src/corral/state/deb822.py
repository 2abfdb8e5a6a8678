"""Debian's control format (deb822(5)): apt's sources and indexes of packages. Pure."""

from __future__ import annotations


def stanzas(text: str) -> list[dict[str, str]]:
    """Each stanza's fields by name in lower case; continued lines are joined by line feeds."""
    parsed: list[dict[str, str]] = [{}]
    key = ""
    for raw in text.splitlines():
        if not raw.strip():
            parsed.append({})
            key = ""
        elif raw.startswith("#"):
            continue
        elif raw[0] in " \t":
            if key:
                # A line that holds one dot stands for an empty one (inline PGP keys).
                more = raw.strip()
                parsed[-1][key] += "\n" + ("" if more == "." else more)
        else:
            name, _, value = raw.partition(":")
            key = name.strip().lower()
            parsed[-1][key] = value.strip()
    return [{k: v.strip() for k, v in fields.items()} for fields in parsed if fields]
