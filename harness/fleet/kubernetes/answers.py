"""What the API answers, read and checked. Anything of another shape is no answer: Unanswered, and asked for again."""

from __future__ import annotations

import json
from typing import Any

Document = dict[str, Any]
"""An object of the API in its JSON form."""


class Unanswered(Exception):  # noqa: N818 - never leaves this room
    """No usable answer came; asking again may help. ``why`` is for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Refused(Exception):  # noqa: N818 - never leaves this room
    """The API answered with an error: its HTTP status, its words, and how long it asks to be left alone."""

    def __init__(self, status: int, said: str, retry_after_s: float = 0.0) -> None:
        super().__init__(said)
        self.status = status
        self.why = f"HTTP {status} {said}".strip()
        self.retry_after_s = retry_after_s


def as_document(body: bytes) -> Document:
    """The one JSON object of an answer. Raises Unanswered."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"the answer is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise Unanswered("the answer is no JSON object")
    return document


def as_items(document: Document) -> list[Document]:
    """The objects of a list; one without an array of items is no list. Raises Unanswered."""
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unanswered("the answer holds no list of items")
    return items


def as_count(value: object, key: str) -> int:
    """A whole number, 0 or more. Raises Unanswered that names ``key``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unanswered(f"{key} is no count")
    return value


def metadata(document: Document) -> Document:
    """The object's metadata, empty when it has none."""
    found = document.get("metadata")
    return found if isinstance(found, dict) else {}


def uid(document: Document) -> str:
    """The object's uid: what tells it from another of the same name."""
    return str(metadata(document).get("uid", ""))


def annotations(document: Document) -> Document:
    """The object's annotations, empty when it has none."""
    found = metadata(document).get("annotations")
    return found if isinstance(found, dict) else {}


def take_event(event: Document, pods: dict[str, Document]) -> str:
    """Take one event of a watch into ``pods`` (by uid); its resource version.

    Raises Refused for an error that the server sent as an event, and Unanswered for what is no event.
    """
    kind, document = event.get("type"), event.get("object")
    if not isinstance(document, dict):
        raise Unanswered("a line of the watch holds no object")
    if kind == "ERROR":
        code = document.get("code")
        raise Refused(code if isinstance(code, int) else 500, str(document.get("message", "")))
    if kind == "DELETED":
        pods.pop(uid(document), None)
    elif kind in ("ADDED", "MODIFIED"):
        pods[uid(document)] = document
    return str(metadata(document).get("resourceVersion", ""))
