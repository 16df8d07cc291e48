"""The examples of the documentation."""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Document:
    """A document with examples, which are one program together."""

    path: Path

    @property
    def name(self) -> str:
        """The path within the repository."""
        return str(self.path.relative_to(REPOSITORY))

    def program(self) -> str:
        """The examples at the lines that they have in the document, all others empty."""
        text = self.path.read_text()
        lines = text.splitlines()
        kept = [""] * len(lines)
        for block in _BLOCK.finditer(text):
            first = text.count("\n", 0, block.start(1))
            last = text.count("\n", 0, block.end(1))
            kept[first:last] = lines[first:last]
        return "\n".join(kept) + "\n"


def documents() -> list[Document]:
    """All documents with examples in Python."""
    project = REPOSITORY / "sdk/python"
    paths = [REPOSITORY / "docs/python.md", project / "README.md", *(project / "docs").glob("*.md")]
    found = [Document(path) for path in sorted(paths) if _BLOCK.search(path.read_text())]
    assert len(found) > 10
    return found
