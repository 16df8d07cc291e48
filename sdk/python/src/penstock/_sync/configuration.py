# Written by tools/generate.py from _async/configuration.py: change that file.
"""The configuration of the daemon that is asked."""

from .. import _operations as operations
from ..models.settings import SettingsFaults, SettingsReload, SettingsView
from .connection import Connection


class Configuration:
    """The configuration of the daemon that is asked: each peer of a site has its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> SettingsView:
        """Returns the settings in force, each with the layer that sets it. For operators."""
        return self._connection.call(operations.SETTINGS_GET, SettingsView)

    def check(self, text: str) -> SettingsFaults:
        """Checks a text as the main file of the configuration; changes nothing. For operators.

        Args:
            text: The TOML.
        """
        body = {"text": text}
        return self._connection.call(operations.SETTINGS_CHECK, SettingsFaults, json=body)

    def reload(self) -> SettingsReload:
        """Has the daemon read its configuration again. For administrators."""
        return self._connection.call(operations.SETTINGS_RELOAD, SettingsReload)
