"""Where the settings and the state are.

Reading them is left to `load`; making them to `bascule init`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs

from bascule.settings.errors import Problem, SettingsError

FILE: Final = "bascule.toml"
CONFIG_VARIABLE: Final = "BASCULE_CONFIG"
STATE_VARIABLE: Final = "BASCULE_STATE"


def config_folder() -> Path:
    """Return the platform's configuration folder of Bascule."""
    return Path(platformdirs.user_config_dir("bascule", appauthor=False))


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return `BASCULE_STATE`, else the platform's state folder of Bascule."""
    named = environ.get(STATE_VARIABLE)
    return Path(named).absolute() if named else Path(platformdirs.user_state_dir("bascule", appauthor=False))


def find_config(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the settings file: the flag, else `BASCULE_CONFIG`, else `./bascule.toml`, else the configuration folder.

    Raises:
        SettingsError: what was named is not there, or nothing is.
    """
    if flag is not None:
        return _named(flag, "--config")
    if environ.get(CONFIG_VARIABLE):
        return _named(Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE)
    for candidate in (Path(FILE), config_folder() / FILE):
        if candidate.is_file():
            return candidate.absolute()
    raise SettingsError(
        None, [Problem("", None, f"no {FILE} here or in {config_folder()}; `bascule init` writes one that works")]
    )


def _named(path: Path, by: str) -> Path:
    if path.is_file():
        return path.absolute()
    words = f"{by} names this, which is no file; `bascule init --dir D` writes settings that work"
    raise SettingsError(path, [Problem("", None, words)])
