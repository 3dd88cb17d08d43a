"""The `bascule` command: its subcommands, and where their errors end.

Each subcommand is left to its file, imported when it is called: `--help` and `--version` must not pay for the SDK.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bascule import __version__
from bascule.cli import logs
from bascule.cli.exits import CommandError, Exit
from bascule.cli.options import (
    ConfigOption,
    ExpectOption,
    JsonOption,
    TokenEnvOption,
    TokenFileOption,
    UrlOption,
    chosen,
)
from bascule.cli.output import finish, prepare, say

INTERRUPTED: Final = 130
"""What shells expect of a program that SIGINT ended."""

app = typer.Typer(
    name="bascule",
    help="AI agents operate your machines, on your terms.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
token_app = typer.Typer(help="Tokens of callers; one is shown once and kept only as a digest.", no_args_is_help=True)
app.add_typer(token_app, name="token")


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code. Errors are words on stderr, never a traceback."""
    prepare()
    # Commands say what matters themselves; `serve` turns this up to what an operator reads.
    logs.set_up(quiet="ERROR")
    code = _code(arguments)
    return code if finish() else int(Exit.FAILED)


def _code(arguments: list[str] | None) -> int:
    try:
        code = app(arguments, standalone_mode=False)
    except CommandError as error:
        say(f"bascule: {error}", sys.stderr)
        return int(error.code)
    except typer.TyperException as error:
        # A usage error of the option parser: it knows how to say itself, in the words people know from other tools.
        parser_error: Any = error
        parser_error.show()
        return int(Exit.USAGE)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return int(Exit.FAILED)
    except Exception as error:  # noqa: BLE001 - the last catch: people get words, whatever happened
        return _fault(error)
    return int(code) if isinstance(code, int) else 0


def _fault(error: Exception) -> int:
    """Say that this is our own fault; where it happened is said to whoever asked for debugging."""
    if os.environ.get("BASCULE_LOG", "").lower() == "debug":
        traceback.print_exception(error)
    words = f"a fault of bascule itself ({type(error).__name__}); BASCULE_LOG=debug shows where. Please report it"
    say(f"bascule: {words}", sys.stderr)
    return int(Exit.FAILED)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"bascule {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """AI agents operate your machines, on your terms."""


@app.command()
def init(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to write; else the configuration folder.")
    ] = None,
) -> Any:
    """Write settings that work, a first caller and its token."""
    from bascule.cli import init as command

    return command.run(directory)


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 picks a free one and shows it.")] = None,
    public_bind: Annotated[
        bool, typer.Option("--public-bind", help="Allow an address that the whole internet may reach.")
    ] = False,
) -> Any:
    """Run the controller of this machine."""
    from bascule.cli import serve as command

    return command.run(config, host, port, public_bind=public_bind)


@app.command()
def bridge(
    url: Annotated[str, typer.Option("--url", help="The controller, such as http://127.0.0.1:8765.")],
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    expect: ExpectOption = None,
    initialize_fallback: Annotated[
        str | None,
        typer.Option(envvar="BASCULE_INITIALIZE_FALLBACK", help="refuse, or offer another revision, at initialize."),
    ] = None,
) -> Any:
    """Serve a controller to one MCP client on stdin and stdout."""
    from bascule.cli import bridge as command

    return command.run(url, token_env, token_file, expect, initialize_fallback)


@app.command()
def tools(
    url: UrlOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    expect: ExpectOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> Any:
    """List what this caller may use."""
    from bascule.cli import tools as command

    return command.run(chosen(url, token_env, token_file, expect, config), as_json=as_json)


@app.command()
def call(
    name: Annotated[str, typer.Argument(help="Operation, such as device.info.")],
    args: Annotated[str, typer.Option("--args", metavar="JSON|@FILE|-", help="Arguments as a JSON object.")] = "{}",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Do it, where it asks to be confirmed.")] = False,
    timeout: Annotated[float | None, typer.Option(min=0.001, metavar="S", help="Seconds to wait.")] = None,
    url: UrlOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    expect: ExpectOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> Any:
    """Call one operation."""
    from bascule.cli import call as command

    request = command.Request(name, args, dry_run=dry_run, confirm=confirm, timeout=timeout)
    return command.run(lambda: chosen(url, token_env, token_file, expect, config), request, as_json=as_json)


@token_app.command("create")
def token_create(
    name: str, config: ConfigOption = None, note: Annotated[str, typer.Option(help="For people.")] = ""
) -> Any:
    """Make a caller and show its token once."""
    from bascule.cli import token as command

    return command.create(name, config, note)


@token_app.command("rotate")
def token_rotate(name: str, config: ConfigOption = None) -> Any:
    """Give a caller a new token; the old one is out at once."""
    from bascule.cli import token as command

    return command.rotate(name, config)


@token_app.command("revoke")
def token_revoke(name: str, config: ConfigOption = None) -> Any:
    """Remove a caller; its token is out at once."""
    from bascule.cli import token as command

    return command.revoke(name, config)


@app.command()
def connect(
    client: Annotated[
        str, typer.Argument(help="openclaw, claude-code, claude-desktop, codex, cursor, vscode or gemini.")
    ],
    write: Annotated[
        bool, typer.Option("--write", help="Write the entry into the client's file, with a backup.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="The client's file, where it is not in its usual place.")
    ] = None,
    server_name: Annotated[str, typer.Option("--name", help="What the client calls the server.")] = "bascule",
    url: UrlOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    expect: ExpectOption = None,
    config: ConfigOption = None,
) -> Any:
    """Print or write a client's entry for the bridge."""
    from bascule.cli import connect as command

    place = command.Place(client, server_name, file, write=write, by_file=token_file is not None)
    return command.run(place, chosen(url, token_env, token_file, expect, config))


@app.command()
def doctor(
    url: UrlOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    expect: ExpectOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> Any:
    """Walk the way of a call, hop by hop, and name what is broken and how to mend it."""
    from bascule.cli import doctor as command

    return command.run(command.Asked(url, token_env, token_file, expect, config), as_json=as_json)


@app.command()
def demo() -> Any:
    """Run a controller, a bridge and two agents on this machine, and show what happens."""
    from bascule.cli import demo as command

    return command.run()


__all__ = ["app", "run"]
