"""The settings themselves: every key there is, its type, its default and its limits (pydantic, strict and closed).

Where a value stands in the file is left to `load`; what follows from it to `assembly`.
"""

import difflib
import math
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from bascule.gates.gate import Receive, Scope, Send
from bascule.gates.host import HostGate
from bascule.gates.origin import OriginGate
from bascule.node.registry import MAX_NAME, NAME
from bascule.node.rules import InvalidRuleError, allowlist
from bascule.node.terms import DEFAULT_OUTPUT_CAP, DEFAULT_TIMEOUT
from bascule.settings.errors import Problem, dotted
from bascule.settings.quantities import duration, size

MAX_TIMEOUT: Final = 86_400.0
"""Seconds an operation may be given: a day; longer work belongs into a service of its own."""

MAX_OUTPUT_CAP: Final = 8 * 1024 * 1024
"""Bytes of output that may be kept of one run: what still fits a line that a client can read."""

MAX_DRAIN: Final = 600.0
"""Seconds a stopping controller may wait for its work; service managers kill after less."""

HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]*-]{0,253}")
"""What can be a name or an address; which of them may be bound is judged by `binding`."""

CONTROLLER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


DASH: Final = "may_start_with_dash"
"""Our own word beside an argument's JSON Schema."""

KEYWORDS: Final = frozenset(
    {
        "type", "enum", "const", "default", "title", "description", "examples", "deprecated", "readOnly", "writeOnly",
        "minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", DASH,
    }
)  # fmt: skip
"""What JSON Schema 2020-12 has for strings, numbers and booleans: the only values a placeholder takes."""


def default_name() -> str:
    """Return this machine's own name, fit to name a controller."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().partition(".")[0]).strip("-._")
    return name[:63] or "bascule"


def _named(value: str) -> str:
    if not CONTROLLER_NAME.fullmatch(value):
        raise ValueError("a controller's name has letters, digits, dot, - and _, at most 63")
    return value


def _host(value: str) -> str:
    if not HOST.fullmatch(value):
        raise ValueError("a name or an address, such as 127.0.0.1 or ::1; the port is a setting of its own")
    return value


async def _nobody(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Stand behind a gate that is made only to judge its entries."""


def _judged(gate: Callable[[str], object]) -> AfterValidator:
    """Let the gate that will use an entry say whether it is one, so that there is one rule for both."""

    def check(value: str) -> str:
        gate(value)
        return value

    return AfterValidator(check)


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse a keyword that JSON Schema would silently ignore: a mistyped limit must not be no limit."""
    for keyword in value:
        if keyword in KEYWORDS or keyword.startswith(("$", "x-")):
            continue
        if keyword in ("required", "optional"):
            raise ValueError("every argument is required unless it has a default")
        close = difflib.get_close_matches(keyword, KEYWORDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(KEYWORDS))}"
        raise ValueError(f"{keyword} is no keyword of JSON Schema for one value; {hint}")
    if type(value.get(DASH, False)) is not bool:
        raise ValueError(f"{DASH} must be true or false")
    return dict(_json(value))


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON Schema has no nan and no inf")
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError("JSON Schema has no dates and times; write them as text in quotes")


def _within(most: float, words: str) -> AfterValidator:
    def check(value: float) -> float:
        if value > most:
            raise ValueError(f"at most {words}")
        return value

    return AfterValidator(check)


def _absolute(value: object) -> Path:
    if not isinstance(value, str) or not Path(value).is_absolute() or "\0" in value:
        raise ValueError("an absolute path, in quotes; ~ and variables are not expanded")
    return Path(value)


def _entries(value: list[str]) -> list[str]:
    try:
        allowlist(value)
    except InvalidRuleError as error:
        raise ValueError(str(error)) from None
    return value


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("the name of an environment variable, without its value")
    return value


Timeout = Annotated[float, BeforeValidator(duration), _within(MAX_TIMEOUT, '"24h"')]
Drain = Annotated[float, BeforeValidator(duration), _within(MAX_DRAIN, '"10m"')]
OutputCap = Annotated[int, BeforeValidator(size), _within(MAX_OUTPUT_CAP, '"8MiB"')]


HostEntry = Annotated[str, _judged(lambda entry: HostGate(_nobody, bind="", hosts=(entry,)))]
OriginEntry = Annotated[str, _judged(lambda entry: OriginGate(_nobody, origins=(entry,)))]
Schema = Annotated[dict[str, Any], AfterValidator(_schema)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ControllerSettings(_Strict):
    """`[controller]`: who it is and where it listens."""

    name: Annotated[str, AfterValidator(_named)] = Field(default_factory=default_name)
    host: Annotated[str, AfterValidator(_host)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    hosts: list[HostEntry] = []
    origins: list[OriginEntry] = []
    public_bind: bool = False
    drain: Drain = 20.0


class PolicySettings(_Strict):
    """`[policy]`: what exists for callers; nothing by default."""

    allow: Annotated[list[str], AfterValidator(_entries)] = []


class PluginSettings(_Strict):
    """`[plugins]`: which installed plug-ins are loaded; none by default."""

    enabled: list[str] = []


class BridgeSettings(_Strict):
    """`[bridge]`: what the bridge of this machine does."""

    initialize_fallback: Literal["refuse", "offer"] = "refuse"


class OperationSettings(_Strict):
    """`[operations.NAME]`: one declared command."""

    description: Annotated[str, Field(min_length=1, max_length=4096)]
    command: Annotated[list[str], Field(min_length=1, max_length=256)]
    effect: Literal["read", "write", "destructive"]
    title: str = ""
    arguments: dict[str, Schema] = {}
    timeout: Timeout = DEFAULT_TIMEOUT
    output_cap: OutputCap = DEFAULT_OUTPUT_CAP
    output: Literal["text", "json"] = "text"
    cwd: Annotated[Path, BeforeValidator(_absolute)] | None = None
    environment: list[Annotated[str, AfterValidator(_variable)]] = []
    confirmation: Literal["none", "preview", "confirm", "human"] | None = None


def _operation_name(value: str) -> str:
    if len(value) > MAX_NAME or not NAME.fullmatch(value):
        raise ValueError(
            f"an operation's name is words of letters, digits, _ and - joined by dots, at most {MAX_NAME} characters"
        )
    return value


class Settings(_Strict):
    """One settings file, read."""

    controller: ControllerSettings = Field(default_factory=ControllerSettings)
    policy: PolicySettings = Field(default_factory=PolicySettings)
    plugins: PluginSettings = Field(default_factory=PluginSettings)
    bridge: BridgeSettings = Field(default_factory=BridgeSettings)
    operations: dict[Annotated[str, AfterValidator(_operation_name)], OperationSettings] = {}

    _path: Path = PrivateAttr(default=Path("bascule.toml"))
    _state: Path = PrivateAttr(default=Path("state"))
    _lines: dict[tuple[str, ...], int] = PrivateAttr(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file they came from."""
        return self._path

    @property
    def state(self) -> Path:
        """The folder where the controller keeps its record."""
        return self._state

    @property
    def callers_file(self) -> Path:
        """`callers.toml` beside the settings."""
        return self._path.parent / "callers.toml"

    @property
    def credentials(self) -> Path:
        """The folder of the clients' own tokens; the controller never reads it."""
        return self._path.parent / "credentials"

    def problem(self, *key: str | int, words: str) -> Problem:
        """Return the problem of `key` that was found later, with its line."""
        return Problem(dotted(key), self.locate(*key), words)

    def locate(self, *key: str | int) -> int | None:
        """Return the line of `key`, or of what encloses it; None where the file has no such place."""
        steps = tuple(str(step) for step in key)
        for length in range(len(steps), 0, -1):
            if steps[:length] in self._lines:
                return self._lines[steps[:length]]
        return None
