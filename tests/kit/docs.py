"""The project's own documents as data: blocks, code, links and tables.

What must be true of them is left to tests/docs; nothing here judges.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> list[str]:
        """Fenced blocks of one of these languages; the empty string is a fence without any."""
        return [body for language, body in _FENCE.findall(self.text) if language in languages]

    def code(self) -> list[str]:
        """What stands between backticks in prose, joined over a line's end as readers see it."""
        return _CODE.findall(re.sub(r"(?<=\S)\n(?=\S)", " ", self.prose))

    def links(self) -> list[str]:
        """Targets of links."""
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """The names its headings can be reached by, as the usual renderers make them."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def table(self, *columns: str) -> list[list[str]]:
        """Rows of every table with these columns; `\\|` inside a cell is text."""
        rows, inside = [], False
        for line in self.text.splitlines():
            cells = _cells(line)
            if cells[: len(columns)] == list(columns):
                inside = True
            elif not line.startswith("|"):
                inside = False
            elif inside and not set(line) <= set("|-: "):
                rows.append(cells)
        return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def documents() -> list[Document]:
    """Every document that people read, in the order of their paths."""
    return [Document(path) for path in sorted(_paths())]


def document(name: str) -> Document:
    """One document, by its path in the repository."""
    return Document(ROOT / name)


def _paths() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / "examples").rglob("*.md")
