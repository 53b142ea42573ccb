"""YAML as a plain tree of text: nothing is constructed, resolved or referred to, so nothing can be made to happen."""

from __future__ import annotations

from typing import Any

NULL = frozenset({"", "~", "null"})  # unquoted


def parse_yaml(content: str) -> Any:
    """Dicts, lists, text and None. Numbers and times stay text: YAML would read ``1:30`` as 90 and ``010`` as 8.

    Raises ValueError for anything that is not one YAML document, for a key that stands twice or is no text, and for
    aliases, with which a short text can stand for a very large tree.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _value(yaml.compose(content, Loader=loader), set())
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _value(node: Any, seen: set[int]) -> Any:
    import yaml

    if node is None:
        return None
    if id(node) in seen:
        raise ValueError("an alias, which output of nighthawk never has")
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        return None if not node.style and node.value in NULL else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(entry, seen) for entry in node.value]
    tree = {}
    for key, entry in node.value:
        name = _value(key, seen)
        if not isinstance(key, yaml.ScalarNode) or name is None:
            raise ValueError("a key that is no text")
        if name in tree:
            raise ValueError("a key stands twice in one object")
        tree[name] = _value(entry, seen)
    return tree
