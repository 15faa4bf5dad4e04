"""What the memory of a process holds, by its pages, and what its files hold."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_CHUNK = 2**24


def memory_holds(pid: int, words: list[bytes]) -> set[bytes]:
    """Those of the words that are anywhere in the readable memory of a process of this user."""
    found: set[bytes] = set()
    longest = max(map(len, words))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - it is no regular file
        for start, end in _ranges(pid):
            before = b""
            with suppress(OSError, ValueError, OverflowError):
                memory.seek(start)
                while start < end and (chunk := memory.read(min(_CHUNK, end - start))):
                    start += len(chunk)
                    found |= {word for word in words if word in before + chunk}
                    before = chunk[-longest:]
    return found


def _ranges(pid: int) -> list[tuple[int, int]]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    matches = (re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line) for line in lines)
    return [(int(one[1], 16), int(one[2], 16)) for one in matches if one]


def files_with(words: list[bytes], *folders: Path) -> list[Path]:
    """The files below some folders that hold one of the words."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if any(word in file.read_bytes() for word in words)]
