"""Fenced code blocks of Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<options>[^\n]*)\n(?P<code>.*?)^(?P=indent)```\s*$", re.M | re.S
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: its page.
        line: of its first line of code.
        language: the word after the fence.
        title: of the block, where it has one.
        code: its text, without its indentation.
    """

    page: Path
    line: int
    language: str
    title: str
    code: str


def code_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        indent = len(found["indent"])
        title = re.search(r'title="([^"]*)"', found["options"])
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("code")) + 1,
            language=found["language"],
            title=title.group(1) if title else "",
            code="".join(line[indent:] or "\n" for line in found["code"].splitlines(keepends=True)),
        )
