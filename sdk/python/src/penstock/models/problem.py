"""Problems, as replies and events carry them."""

from .base import View
from .transfer import Exit


class Problem(View):
    """An error that reaches a user: what failed, why, and what to do next."""

    code: str = "http"
    """The kind of the problem, for programs."""
    title: str = ""
    """Operation that failed and its subject, in one line."""
    detail: str = ""
    """Reason; the chain of causes in one line. May be empty."""
    hint: str = ""
    """Next step for the user. May be empty."""
    exit: Exit = Exit.UNCLASSIFIED
    """Exit status of a command that meets this problem."""
    status: int = 0
    """HTTP status."""
