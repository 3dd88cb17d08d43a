"""Argument templates: an argv whose placeholders take typed values, without a shell in between. Pure.

Which values are allowed is left to each argument's JSON Schema; running the result to `commands`.

What keeps a value from becoming something else:

1. A placeholder is one whole argument or part of one, never two: there is no splitting afterwards.
2. The program itself is literal.
3. An argument that begins with a value may not begin with `-`, unless `--` stands before it or its owner said that it
   may: a value must not turn into an option.
4. No value holds NUL: the kernel would end the argument there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bascule.node.errors import InvalidOperationError
from bascule.node.terms import JsonObject, JsonValue

PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})

Key: TypeAlias = tuple[str | int, ...]


class InvalidTemplateError(InvalidOperationError):
    """A declared operation cannot work as written; `key` leads to the place inside its table of the settings."""

    def __init__(self, message: str, key: Key) -> None:
        super().__init__(message)
        self.key = key


class UnfitValueError(Exception):
    """A value that may not stand where its placeholder stands; the text names the argument and the rule."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder's place."""

    argument: str


Piece: TypeAlias = str | Slot


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template."""

    words: tuple[tuple[Piece, ...], ...]
    may_start_with_dash: frozenset[str] = frozenset()

    def fill(self, values: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """Return the argv for `values`.

        Raises:
            UnfitValueError: rule 3 or 4.
        """
        argv: list[str] = []
        for word in self.words:
            texts = [piece if isinstance(piece, str) else written(piece.argument, values) for piece in word]
            argv.append("".join(texts))
            if argv[-1].startswith("-"):  # 3
                self._check_dash(word, texts, at=len(argv) - 1)
        return tuple(argv)

    def _check_dash(self, word: Sequence[Piece], texts: Sequence[str], *, at: int) -> None:
        # Only a literal `--` counts: one that came from a value would be the caller's own.
        if not isinstance(word[0], Slot) or ("--",) in self.words[:at]:
            return
        # An empty value lets what comes after it begin the argument, be it another value or the template's own text.
        begins = next(piece for piece, text in zip(word, texts, strict=True) if text)
        name = (begins if isinstance(begins, Slot) else word[0]).argument
        if name not in self.may_start_with_dash:
            raise UnfitValueError(
                f"/{name}: begins with `-` and would be read as an option (rule: may_start_with_dash)"
            )


def written(name: str, values: Mapping[str, JsonValue]) -> str:
    """Return a value as the text of an argument: whole numbers without `.0`, booleans as true and false.

    Raises:
        UnfitValueError: NUL in it, or not a string, number or boolean.
    """
    value = values[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise UnfitValueError(f"/{name}: takes a string, a number or a boolean (rule: type)")
    if "\0" in value:  # 4
        raise UnfitValueError(f"/{name}: holds a NUL character (rule: no NUL)")
    return value


def parse(
    command: Sequence[str], arguments: Mapping[str, JsonObject], *, may_start_with_dash: frozenset[str]
) -> Template:
    """Check `command` against its `arguments` and return the template.

    Raises:
        InvalidTemplateError: with the key of what is wrong and what would be right.
    """
    if not command:
        raise InvalidTemplateError("command is empty; name a program and its arguments", ("command",))
    words = tuple(_word(word, ("command", at)) for at, word in enumerate(command))
    if not command[0] or not all(isinstance(piece, str) for piece in words[0]):  # 2
        raise InvalidTemplateError("the program must be written out, without a placeholder", ("command", 0))
    used = [(piece.argument, at) for at, word in enumerate(words) for piece in word if isinstance(piece, Slot)]
    for name, at in used:
        if name not in arguments:
            raise InvalidTemplateError(f"{{{name}}} has no table arguments.{name}", ("command", at))
    for name, schema in arguments.items():
        _check_argument(name, schema)
        if name not in {used_name for used_name, _ in used}:
            raise InvalidTemplateError(f"argument {name} is used nowhere in command", ("arguments", name))
    return Template(words, may_start_with_dash)


def _word(word: str, key: Key) -> tuple[Piece, ...]:
    if "\0" in word:
        raise InvalidTemplateError("an argument cannot hold NUL", key)
    pieces: list[Piece] = []
    at = 0
    for match in PIECE.finditer(word):
        pieces.append(word[at : match.start()])
        at = match.end()
        if match[0] in ("{{", "}}"):
            pieces.append(match[0][0])
        elif match[1] is not None and NAME.fullmatch(match[1]):
            pieces.append(Slot(match[1]))
        else:
            raise InvalidTemplateError(
                f"{match[0]!r} is no placeholder; write {{name}}, or {{{{ and }}}} for braces", key
            )
    pieces.append(word[at:])
    return _joined(pieces)


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Join neighbouring texts and drop empty ones, so that the first piece says what an argument begins with."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece:
            joined.append(piece)
    return tuple(joined)


def _check_argument(name: str, schema: JsonObject) -> None:
    key: Key = ("arguments", name, "type")
    if not NAME.fullmatch(name):
        raise InvalidTemplateError(f"{name!r} cannot name an argument: letters, digits and _", ("arguments", name))
    kinds = schema.get("type")
    if kinds is None:
        options = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if not isinstance(options, list) or not all(isinstance(option, (str, int, float)) for option in options):
            raise InvalidTemplateError(f"argument {name} needs a type: string, integer, number or boolean", key)
        return
    listed = kinds if isinstance(kinds, list) else [kinds]
    wrong = [kind for kind in listed if kind not in SCALARS]
    if wrong or not listed:
        raise InvalidTemplateError(
            f"argument {name} cannot be of type {wrong[0] if wrong else 'nothing'}: a placeholder takes string, integer, "
            "number or boolean",
            key,
        )
