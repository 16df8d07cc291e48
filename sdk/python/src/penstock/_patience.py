"""How long a call waits: for an end, and for a daemon that does not answer."""

import random
import time

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 2.0


class Deadline:
    """The moment at which a call returns whatever has happened."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self, most: float) -> float:
        """Returns the seconds that are left, `most` at most."""
        return most if self._end is None else min(most, max(0.0, self._end - time.monotonic()))

    @property
    def is_over(self) -> bool:
        """Whether the moment has come."""
        return self._end is not None and time.monotonic() >= self._end


class Outage:
    """The time without a connection since a daemon last told something.

    Also the waits between attempts to reach it again.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._total = 0.0
        self._since: float | None = time.monotonic()
        self._bound = _FIRST_WAIT

    def connected(self) -> None:
        """Stops the time: a connection is open."""
        self._total = self._seconds()
        self._since = None

    def answered(self) -> None:
        """Ends the outage: the daemon has told something."""
        self._total = 0.0
        self._bound = _FIRST_WAIT

    def disconnected(self) -> None:
        """Lets the time run: no connection is open."""
        if self._since is None:
            self._since = time.monotonic()

    @property
    def is_too_long(self) -> bool:
        """Whether no further attempt is to be made."""
        return self._seconds() >= self._longest

    def next_wait(self) -> float:
        """Returns the seconds to wait before the next attempt: random, with a doubling bound."""
        wait = random.uniform(_FIRST_WAIT / 2, self._bound)
        self._bound = min(_LONGEST_WAIT, 2 * self._bound)
        return wait

    def _seconds(self) -> float:
        return self._total + (0.0 if self._since is None else time.monotonic() - self._since)
