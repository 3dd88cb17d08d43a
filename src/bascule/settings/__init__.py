"""Frozen settings from a TOML file, the environment and flags; unsafe values are errors, each with its line.

Putting the settings to work is left to `assembly`; nothing but it and `cli` reads them.
"""

from bascule.settings.errors import Problem, SettingsError
from bascule.settings.find import CONFIG_VARIABLE, STATE_VARIABLE, config_folder, find_config, state_folder
from bascule.settings.load import load
from bascule.settings.model import (
    BridgeSettings,
    ControllerSettings,
    OperationSettings,
    PluginSettings,
    PolicySettings,
    Settings,
)

__all__ = [
    "CONFIG_VARIABLE",
    "STATE_VARIABLE",
    "BridgeSettings",
    "ControllerSettings",
    "OperationSettings",
    "PluginSettings",
    "PolicySettings",
    "Problem",
    "Settings",
    "SettingsError",
    "config_folder",
    "find_config",
    "load",
    "state_folder",
]
