"""`bascule serve`: the controller, until a signal ends it.

Everything it is made of is left to `assembly`; here its refusals become exit codes.
"""

import os
import sys
from pathlib import Path

from bascule.cli import logs
from bascule.cli.exits import CommandError, Exit
from bascule.settings import Settings, SettingsError, find_config, load


def run(config: Path | None, host: str | None, port: int | None, *, public_bind: bool) -> int:
    """Serve; return the exit code.

    Raises:
        CommandError: nothing was started; the words say why.
    """
    if os.name != "posix":
        # Commands could not be ended with all their processes there, and that is a promise: refused, not dropped.
        words = "the controller does not run on this system yet: it could not end a command's processes. Bridge and commands do"
        raise CommandError(Exit.USAGE, words)
    try:
        overrides = {"host": host, "port": port, "public_bind": True if public_bind else None}
        settings = load(find_config(config, os.environ), overrides=overrides)
    except SettingsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    _check(settings)
    from bascule import binding
    from bascule.assembly import controller
    from bascule.node.errors import StoreUnavailableError

    logs.set_up()
    try:
        return controller.serve(settings, announce=_announce)
    except (SettingsError, binding.BindRefusedError) as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except controller.PortTakenError as error:
        raise CommandError(Exit.TRANSPORT, str(error)) from None
    except StoreUnavailableError as error:
        raise CommandError(Exit.FAILED, f"{error}: {error.detail}. Nothing was started") from None
    except OSError as error:
        words = f"the state folder {settings.state} cannot be used: {error.strerror}; BASCULE_STATE names another"
        raise CommandError(Exit.FAILED, words) from None


def _check(settings: Settings) -> None:
    """Find what is wrong with the settings before the SDK is loaded, which takes longer than all of this."""
    from bascule import binding
    from bascule.assembly import operations

    own = settings.controller
    try:
        operations.check(settings)
        binding.assess(own.host, own.port, public=own.public_bind)
    except (SettingsError, binding.BindRefusedError) as error:
        raise CommandError(Exit.USAGE, str(error)) from None


def _announce(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
