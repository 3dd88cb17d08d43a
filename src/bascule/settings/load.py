"""Reads a settings file and tells of everything that is wrong with it, each with its line and what would be right.

What keys there are is left to `model`, where they stand to `positions`.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from bascule.settings.errors import Problem, SettingsError, dotted
from bascule.settings.find import state_folder
from bascule.settings.model import OperationSettings, Settings

MAX_FILE: Final = 1_048_576
"""Bytes of a settings file; more is not one."""

_AT_LINE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def load(
    path: Path, *, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings in `path`.

    Args:
        path: the file.
        environ: the environment; the process's own where None.
        overrides: values of `[controller]` given by flags; they win.

    Raises:
        SettingsError: with every problem found.
    """
    document, source = _document(path)
    lines = _lines(source)
    merged = _with_overrides(document, overrides or {})
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(path, _problems(error, lines)) from None
    settings._path = path.absolute()  # noqa: SLF001 - the loader of these very settings
    settings._state = state_folder(os.environ if environ is None else environ)  # noqa: SLF001 - as above
    settings._lines = lines  # noqa: SLF001 - as above
    return settings


def _document(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SettingsError(path, [Problem("", None, f"cannot be read: {os.strerror(error.errno or 0)}")]) from None
    if len(source) > MAX_FILE:
        raise SettingsError(path, [Problem("", None, f"is larger than {MAX_FILE} bytes")])
    try:
        return tomllib.loads(source.decode("utf-8")), source
    except UnicodeDecodeError as error:
        words = "is not UTF-8; save it as UTF-8"
        raise SettingsError(path, [Problem("", source.count(b"\n", 0, error.start) + 1, words)]) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(path, [_unreadable(str(error), source)]) from None
    except (ValueError, RecursionError):
        # tomllib lets these two through: whole numbers of thousands of digits, hundreds of nested brackets.
        raise SettingsError(path, [Problem("", None, "holds a number too long or a list too deep to read")]) from None


def _unreadable(complaint: str, source: bytes) -> Problem:
    """Return what the TOML parser complains of, with the line that it names."""
    if source.startswith(b"\xef\xbb\xbf"):
        return Problem("", 1, "begins with a byte order mark; save it as UTF-8 without one")
    found = _AT_LINE.search(complaint)
    line = None if found is None else int(found[1]) if found[1] else source.count(b"\n") + 1
    return Problem("", line, f"is not valid TOML: {_AT_LINE.sub('', complaint)}")


def _lines(source: bytes) -> dict[tuple[str, ...], int]:
    from bascule.settings.positions import lines_of

    return lines_of(source)


def _with_overrides(document: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in overrides.items() if value is not None}
    controller = document.get("controller", {})
    if not given or not isinstance(controller, dict):
        return document
    return {**document, "controller": {**controller, **given}}


def _problems(error: ValidationError, lines: Mapping[tuple[str, ...], int]) -> list[Problem]:
    found = [_problem(entry, lines) for entry in error.errors(include_url=False)]
    return sorted(found, key=lambda problem: problem.line or 0)


def _problem(entry: Any, lines: Mapping[tuple[str, ...], int]) -> Problem:
    steps = [step for step in entry["loc"] if step != "[key]"]
    path = tuple(str(step) for step in steps)
    return Problem(dotted(steps), _line(path, lines), _words(entry, path))


def _line(path: Sequence[str], lines: Mapping[tuple[str, ...], int]) -> int | None:
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def _words(entry: Any, path: Sequence[str]) -> str:
    kind, context = entry["type"], entry.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind == "missing":
        return "is missing; every operation needs description, command and effect"
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context)
    if kind == "value_error":
        return str(context["error"])
    if kind.endswith("_type"):
        return f"must be {_TYPES.get(kind, kind.removesuffix('_type'))}"
    message: str = entry["msg"]
    return message[0].lower() + message[1:]


_TYPES: Final = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list in [ ]",
    "dict_type": "a table",
    "model_type": "a table",
    "float_type": "a number",
}


_BOUNDS: Final = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} items",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}


def _unknown(path: Sequence[str]) -> str:
    here, key = path[:-1], path[-1]
    known = sorted(_fields_at(here))
    elsewhere = [table for table in Settings.model_fields if key in _fields_at([table])]
    close = difflib.get_close_matches(key, known, n=1)
    if elsewhere:
        table = elsewhere[0] if elsewhere[0] != "operations" else 'operations."NAME"'
        return f"is not a setting here; it belongs under [{table}]"
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return f"is not a setting; {hint}"


def _fields_at(path: Sequence[str]) -> set[str]:
    model: type[BaseModel] = Settings
    for step in path:
        if model is Settings and step == "operations":
            return set(OperationSettings.model_fields)
        field = model.model_fields.get(step)
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return set()
        model = annotation
    return set(model.model_fields)
