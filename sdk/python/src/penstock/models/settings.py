"""The configuration of a daemon: its settings, faults, and the outcome of a reload."""

from pydantic import JsonValue

from .base import OpenEnum, View


class SettingSource(View):
    """The layer that a value comes from."""

    kind: str
    """`default`, `file`, `environment` or `flag`."""
    path: str | None = None
    """The file, for one."""
    line: int | None = None
    """The line in the file, from 1 on."""
    name: str | None = None
    """The variable or the option, for one."""


class TakenBy(OpenEnum):
    """The event after which a changed value counts."""

    RELOAD = "reload"
    """A reload."""
    RESTART = "restart"
    """The next start of the daemon."""


class SettingView(View):
    """A value of the configuration that is in force."""

    key: str
    """The key, as `web.listen` or `store[raw].path`."""
    value: JsonValue
    """The value. A secret is shown as `"set"`."""
    source: SettingSource
    """The layer that sets it."""
    taken_by: TakenBy
    """The event after which a changed value counts."""


class SettingsView(View):
    """The configuration of a daemon."""

    files: list[str]
    """The files that were read, the one that counts most last."""
    settings: list[SettingView]
    """The settings in force, in the order of the reference."""
    kept: list[str] = []
    """Keys whose values in the files count at the next start only."""


class FaultLevel(OpenEnum):
    """Severity of a fault."""

    WARNING = "warning"
    """The daemon starts, and something does not work as it may be meant."""
    ERROR = "error"
    """The daemon does not start, and a reload keeps the old configuration."""


class SettingFault(View):
    """A fault of a configuration, with its place."""

    level: FaultLevel
    """The severity."""
    place: str | None = None
    """The file, the variable or the option that holds it."""
    line: int | None = None
    """The line in the file, from 1 on."""
    column: int | None = None
    """The column in the line, in characters, from 1 on."""
    text: str | None = None
    """The line itself."""
    message: str
    """The fault."""
    nearest: str | None = None
    """The nearest known key, for one that is unknown."""
    hint: str = ""
    """The next step."""


class SettingsFaults(View):
    """The faults of a configuration."""

    faults: list[SettingFault]
    """The faults in order of their places. Empty if there is none."""


class SettingsReload(View):
    """The outcome of a reload."""

    reloaded: bool
    """Whether the configuration was taken. With an error in it the old one stays whole."""
    taken: list[str]
    """Keys whose new values are in force."""
    kept: list[str]
    """Keys whose new values count at the next start only."""
    faults: list[SettingFault]
    """The faults of the configuration, and what could not be put in force."""
