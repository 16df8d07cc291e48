"""Decides whether a request is sent again, and after which wait."""

from dataclasses import dataclass

from ._operations import Operation, Repeat
from .errors import PASSING, ApiError, ConnectionFailed, PenstockError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after which waits, a request is sent again. Waits are in seconds.

    The wait before a second try is random, up to `first_wait`. The bound doubles with each try, to
    `longest_wait` at most. A wait that the daemon asks for is kept, unless it is longer than
    `longest_retry_after`: then the error is raised at once.
    """

    tries: int = 5
    first_wait: float = 0.25
    longest_wait: float = 10.0
    longest_retry_after: float = 60.0

    def wait_before_next(
        self, operation: Operation, error: PenstockError, tries_made: int, chance: float
    ) -> float | None:
        """Returns the wait before the next try; none if the error is to be raised.

        `chance` is random, from 0 to 1.
        """
        if tries_made >= self.tries or not _may_repeat(operation, error):
            return None
        wait = chance * min(self.longest_wait, self.first_wait * 2.0 ** (tries_made - 1))
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked is None:
            return wait
        return asked + wait if asked <= self.longest_retry_after else None


def _may_repeat(operation: Operation, error: PenstockError) -> bool:
    """Whether the error may pass, and sending the request again can do no harm."""
    if isinstance(error, ConnectionFailed):
        is_harmless = operation.repeat is Repeat.HARMLESS and not error.timed_out
        return is_harmless or not error.was_sent
    return (
        operation.repeat is Repeat.HARMLESS
        and isinstance(error, ApiError)
        and error.status in PASSING
        and error.retryable
    )
