"""Operations declared in the settings: a command each, with typed arguments and no shell.

Reading the settings is left to `settings`, filling templates to `template`, running to `commands`.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from bascule import wire
from bascule.capabilities.commands import Ended, NotStartedError, Plan, child_environment, run
from bascule.capabilities.template import InvalidTemplateError, Template, UnfitValueError, parse
from bascule.node.errors import InvalidOperationError
from bascule.node.node import Back
from bascule.node.schema import Schema
from bascule.node.terms import (
    DEFAULT_OUTPUT_CAP,
    DEFAULT_TIMEOUT,
    Call,
    Category,
    Completed,
    Confirmation,
    Effect,
    EffectState,
    Failed,
    JsonObject,
    JsonValue,
    Operation,
    Outcome,
    Refused,
    Slots,
)
from bascule.platform.processes import TERM_TO_KILL

DASH: Final = "may_start_with_dash"
"""Our own word beside an argument's JSON Schema; it never reaches a caller."""

_log: Final = logging.getLogger("bascule.capabilities")

_TEXT_RESULT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "exitCode": {"type": "integer"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "truncated": {"type": "boolean"},
        "durationMs": {"type": "integer"},
    },
    "required": ["exitCode", "stdout", "stderr", "truncated", "durationMs"],
}


@dataclass(frozen=True, slots=True)
class DeclaredCommand:
    """One operation as the settings declare it. Times in seconds, sizes in bytes."""

    name: str
    description: str
    command: tuple[str, ...]
    effect: Effect
    title: str = ""
    arguments: Mapping[str, JsonObject] = field(default_factory=dict)
    """JSON Schema of each argument, perhaps with `may_start_with_dash`."""
    cwd: Path | None = None
    environment: tuple[str, ...] = ()
    """Names of the controller's variables that the command gets besides the basics."""
    timeout: float = DEFAULT_TIMEOUT
    output_cap: int = DEFAULT_OUTPUT_CAP
    output: Literal["text", "json"] = "text"
    confirmation: Confirmation | None = None
    term_to_kill: float = TERM_TO_KILL


class UnavailableError(Exception):
    """What the command needs is not there; said before anything is done."""


class InvalidDeclarationError(InvalidTemplateError):
    """A declared operation that cannot work; `operation` names it."""

    def __init__(self, operation: str, error: InvalidTemplateError) -> None:
        super().__init__(f"{operation}: {error}", error.key)
        self.operation = operation


class Declared:
    """All declared operations of one controller."""

    category = "commands"

    def __init__(
        self,
        commands: Sequence[DeclaredCommand],
        *,
        environ: Mapping[str, str],
        redact: Callable[[str, Sequence[str]], str] = lambda text, _secrets: text,
    ) -> None:
        """Check every command.

        Args:
            commands: in the order in which they are listed.
            environ: the controller's own environment, of which children get what they were promised.
            redact: masks the given secret values, and known shapes of secrets, in a text.

        Raises:
            InvalidDeclarationError: one cannot work as declared.
        """
        self._environ, self._redact = environ, redact
        self._commands = {command.name: command for command in commands}
        self._templates = {command.name: _template(command) for command in commands}
        self._operations = tuple(_operation(command) for command in commands)

    def operations(self) -> Sequence[Operation]:
        """Return them in the order of the settings."""
        return self._operations

    def can_handle(self, name: str) -> bool:
        """Whether `name` is declared."""
        return name in self._commands

    async def execute(self, call: Call, back: Back) -> Outcome:
        """Run the command; everything that can be known before is said before."""
        command = self._commands[call.operation.name]
        try:
            plan = await asyncio.to_thread(self._plan, command, call.arguments)
        except UnfitValueError as error:
            return Refused(
                Category.INVALID_REQUEST, f"The arguments do not fit: {error}", "value refused by its template"
            )
        except UnavailableError as error:
            return Refused(Category.COMMAND_UNAVAILABLE, f"{command.name} cannot run: {error}", str(error))
        try:
            ended = await run(plan)
        except NotStartedError as error:
            words = f"{command.name} could not be started: {error}"
            return Refused(Category.COMMAND_UNAVAILABLE, words, words)
        if ended.leftovers:
            _log.info("%s had ended, but processes it had started were running; they were ended", command.name)
            await back.log("notice", f"{command.name} left processes running when it ended; they were ended with it")
        return self._outcome(command, ended)

    async def plan(self, call: Call) -> JsonValue:
        """Return exactly what would be run."""
        command = self._commands[call.operation.name]
        shown: JsonObject = {"command": None, "cwd": str(command.cwd) if command.cwd else None}
        try:
            plan = await asyncio.to_thread(self._plan, command, call.arguments)
        except (UnfitValueError, UnavailableError) as error:
            return shown | {"problem": str(error)}
        return shown | {
            "command": list(plan.argv),
            "program": plan.program,
            "environment": sorted(plan.env),
            "timeoutMs": round(command.timeout * 1000),
        }

    def _plan(self, command: DeclaredCommand, arguments: Mapping[str, JsonValue]) -> Plan:
        # In a thread: folder and program may lie on a mount that does not answer.
        argv = self._templates[command.name].fill(arguments)
        missing = [name for name in command.environment if name not in self._environ]
        if missing:
            raise UnavailableError(f"the variable {missing[0]} is not set for the controller")
        if command.cwd is not None and not command.cwd.is_dir():
            raise UnavailableError(f"its working directory {command.cwd} is not there")
        env = child_environment(self._environ, command.environment)
        program = _program(argv[0], env.get("PATH", os.defpath), command.cwd)
        return Plan(argv, program, env, command.cwd, command.output_cap, command.term_to_kill)

    def _outcome(self, command: DeclaredCommand, ended: Ended) -> Outcome:
        value = self._value(command, ended)
        if ended.exit_code != 0:
            how = f"exit code {ended.exit_code}" if ended.exit_code > 0 else f"signal {-ended.exit_code}"
            detail = f"ended with {how}"
            return Failed(
                Category.COMMAND_FAILED, f"{command.name} {detail}", detail, value, effect=EffectState.PARTIAL
            )
        if command.output == "text":
            return Completed(value)
        return self._json(command, ended, value)

    def _json(self, command: DeclaredCommand, ended: Ended, value: JsonObject) -> Outcome:
        try:
            parsed = wire.read(bytes(ended.capture.kept["stdout"]).strip())
        except wire.WireError as error:
            why = f"it was cut at its cap of {command.output_cap} bytes" if ended.capture.truncated else str(error)
            words = f"{command.name} ended well, but its output is not the JSON it promised: {why}"
            return Failed(Category.CAPABILITY_FAILURE, words, "output is not JSON", value, effect=EffectState.COMPLETE)
        return Completed(self._masked(parsed, self._secrets(command)))

    def _value(self, command: DeclaredCommand, ended: Ended) -> JsonObject:
        secrets = self._secrets(command)
        return {
            "exitCode": ended.exit_code,
            "stdout": self._redact(ended.capture.text("stdout", secrets), secrets),
            "stderr": self._redact(ended.capture.text("stderr", secrets), secrets),
            "truncated": ended.capture.truncated,
            "durationMs": round(ended.seconds * 1000),
        }

    def _secrets(self, command: DeclaredCommand) -> Sequence[str]:
        return [self._environ[name] for name in command.environment if name in self._environ]

    def _masked(self, value: Any, secrets: Sequence[str]) -> Any:
        if isinstance(value, str):
            return self._redact(value, secrets)
        if isinstance(value, list):
            return [self._masked(item, secrets) for item in value]
        if isinstance(value, dict):
            return {self._redact(name, secrets): self._masked(item, secrets) for name, item in value.items()}
        if secrets and isinstance(value, int | float) and (shown := self._redact(str(value), secrets)) != str(value):
            return shown  # a secret of digits alone
        return value


def _program(name: str, path: str, cwd: Path | None) -> str:
    """Return the file that `name` stands for, as the kernel would find it from `cwd` with this PATH.

    Raises:
        UnavailableError: there is none, or it may not be executed.
    """
    if "/" in name:
        file = Path(name) if Path(name).is_absolute() or cwd is None else cwd / name
        if file.is_file() and os.access(file, os.X_OK):
            return str(file.absolute())
    elif (found := shutil.which(name, path=path)) is not None:
        return str(Path(found).absolute())
    raise UnavailableError(f"its program {name} is missing or not executable on this machine")


def _template(command: DeclaredCommand) -> Template:
    dashed = frozenset(name for name, schema in command.arguments.items() if schema.get(DASH) is True)
    schemas = {name: _own(schema) for name, schema in command.arguments.items()}
    try:
        for name, schema in command.arguments.items():
            _check_words(name, schema)
        return parse(command.command, schemas, may_start_with_dash=dashed)
    except InvalidTemplateError as error:
        raise InvalidDeclarationError(command.name, error) from None


def _check_words(name: str, schema: JsonObject) -> None:
    """Check what `parse` does not see: our own word, and a default, which nobody reads against its schema later."""
    if not isinstance(schema.get(DASH, False), bool):
        raise InvalidTemplateError(f"{DASH} must be true or false", ("arguments", name, DASH))
    if "default" not in schema:
        return
    try:
        violations = Schema(_own(schema)).violations(schema["default"])
    except InvalidOperationError:
        return  # the registry says what is wrong with the schema itself
    if violations:
        raise InvalidTemplateError(f"the default does not fit: {violations[0]}", ("arguments", name, "default"))


def _own(schema: JsonObject) -> JsonObject:
    return {keyword: value for keyword, value in schema.items() if keyword != DASH}


def _operation(command: DeclaredCommand) -> Operation:
    schemas = {name: _own(schema) for name, schema in command.arguments.items()}
    return Operation(
        name=command.name,
        title=command.title,
        description=command.description,
        arguments={
            "type": "object",
            "properties": schemas,
            "required": [name for name, schema in schemas.items() if "default" not in schema],
            "additionalProperties": False,
        },
        effect=command.effect,
        result=_TEXT_RESULT if command.output == "text" else None,
        timeout=command.timeout,
        confirmation=command.confirmation,
        slots=Slots.PROCESS,
        output_cap=command.output_cap,
    )
