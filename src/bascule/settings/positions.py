"""On which line of a TOML file each key stands (tree-sitter: the TOML parsers give values without places).

Values are read by `tomllib`; nothing here judges them.
"""

import tomllib
from typing import Any, Final, TypeAlias

import tree_sitter
import tree_sitter_toml

Lines: TypeAlias = dict[tuple[str, ...], int]

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_toml.language())


def lines_of(source: bytes) -> Lines:
    """Return the line, counted from 1, of every key path and array element in `source`, which must be valid TOML."""
    tree = tree_sitter.Parser(_LANGUAGE).parse(source)
    lines: Lines = {}
    for node in tree.root_node.named_children:
        if node.type == "pair":
            _pair(node, (), lines)
        elif node.type in ("table", "table_array_element"):
            header, *pairs = node.named_children
            prefix = _key(header)
            _note(prefix, header, lines)
            for pair in pairs:
                if pair.type == "pair":
                    _pair(pair, prefix, lines)
    return lines


def _pair(node: Any, prefix: tuple[str, ...], lines: Lines) -> None:
    key, value = node.named_children[0], node.named_children[-1]
    path = prefix + _key(key)
    _note(path, node, lines)
    _value(value, path, lines)


def _value(node: Any, path: tuple[str, ...], lines: Lines) -> None:
    if node.type == "array":
        elements = [child for child in node.named_children if child.type != "comment"]
        for index, element in enumerate(elements):
            _note((*path, str(index)), element, lines)
            _value(element, (*path, str(index)), lines)
    elif node.type == "inline_table":
        for child in node.named_children:
            if child.type == "pair":
                _pair(child, path, lines)


def _note(path: tuple[str, ...], node: Any, lines: Lines) -> None:
    for length in range(1, len(path) + 1):
        lines.setdefault(path[:length], node.start_point[0] + 1)


def _key(node: Any) -> tuple[str, ...]:
    """Return the steps of a key, as the TOML parser itself reads them: quotes and dots are its business."""
    document: Any = tomllib.loads(node.text.decode() + " = 0")
    steps = []
    while isinstance(document, dict):
        ((step, document),) = document.items()
        steps.append(step)
    return tuple(steps)
