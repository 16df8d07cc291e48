"""Lines of a document that arrives in parts."""


class Lines:
    """Cuts parts into lines, and keeps the beginning of the next line only."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def of(self, part: bytes) -> list[bytes]:
        """Returns the lines that this part completes, without their ends."""
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        self._rest.append(rest)
        return lines

    def last(self) -> list[bytes]:
        """Returns the last line, if it has no end."""
        rest = b"".join(self._rest)
        return [rest] if rest else []
