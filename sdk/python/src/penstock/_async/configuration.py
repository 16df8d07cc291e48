"""The configuration of the daemon that is asked."""

from .. import _operations as operations
from ..models.settings import SettingsFaults, SettingsReload, SettingsView
from .connection import AsyncConnection


class AsyncConfiguration:
    """The configuration of the daemon that is asked: each peer of a site has its own."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> SettingsView:
        """Returns the settings in force, each with the layer that sets it. For operators."""
        return await self._connection.call(operations.SETTINGS_GET, SettingsView)

    async def check(self, text: str) -> SettingsFaults:
        """Checks a text as the main file of the configuration; changes nothing. For operators.

        Args:
            text: The TOML.
        """
        body = {"text": text}
        return await self._connection.call(operations.SETTINGS_CHECK, SettingsFaults, json=body)

    async def reload(self) -> SettingsReload:
        """Has the daemon read its configuration again. For administrators."""
        return await self._connection.call(operations.SETTINGS_RELOAD, SettingsReload)
