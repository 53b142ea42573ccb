"""A page as a test reads it: its tags, its words, the rows of its tables."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Collects tags and text, and fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text.replace("<wbr>", ""))  # a place to break a line is no space
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            return
        self.words.append(data.strip())
        if any(tag in self._open for tag in ("td", "th")):
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {' '.join(data.split())}".strip()

    @property
    def text(self) -> str:
        return " ".join(word for word in self.words if word)

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row and row[0].startswith(first))
