"""A page as a parser of HTML sees it."""

from __future__ import annotations

from html.parser import HTMLParser


class Seen(HTMLParser):
    """Tags, attributes, scripts, and the text that is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._hidden = ""
        self.feed(page)

    @property
    def words(self) -> str:
        """The text with single blanks."""
        return " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._hidden = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._hidden = ""
        self.text += " " if tag in ("td", "th") else ""

    def handle_data(self, data: str) -> None:
        if self._hidden == "script":
            self.scripts.append(data)
        elif not self._hidden:
            self.text += data
