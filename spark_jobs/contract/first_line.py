"""What the first line of a csv file shows of the file's form; no message here quotes the line.

The first line of a file without a header is a row, which may be a person's.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.values import in_another_form

_PACKED = {
    b"\x1f\x8b": "one that gzip compressed, and its name does not end in .gz",
    b"BZh91AY&SY": "one that bzip2 compressed, and its name does not end in .bz2",
    b"\x28\xb5\x2f\xfd": "one that zstd compressed, and its name does not end in .zst",
    b"\xfd7zXZ\0": "one that xz compressed, which no engine reads",
    b"PK\x03\x04": "a zip file or a workbook, which no engine reads",
    b"PAR1\x15": "a Parquet file",
    b"SQLite format 3": "a database",
}
"""How files begin that are no text, and what they are."""
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}


@dataclass(frozen=True, kw_only=True)
class HeaderFault:
    """What is wrong with a first line, in words that do not quote it, and what to do."""

    what: str
    remedy: str


def header_names(line: str, form: FileForm) -> list[str]:
    """The column names in a first line; empty if the line cannot be a header."""
    escape = None if form.escape in ("", form.quote) else form.escape
    reader = csv.reader(
        [line.removeprefix("\ufeff")],
        delimiter=form.separator,
        quotechar=form.quote or None,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
        escapechar=escape,
        doublequote=escape is None,
        skipinitialspace=form.trim and form.separator != " ",
    )
    try:
        return [name.strip() for name in next(reader, [])]
    except csv.Error:  # longer than any name, or with a zero byte
        return []


def text_of(line: bytes, encoding: str) -> str | None:
    """A line's text; None if it is not in this encoding."""
    try:
        return line.decode("utf-8-sig") if encoding == "utf-8" else line.decode(encoding, "replace")
    except UnicodeDecodeError:
        return None


def fault_of(line: bytes | None, form: FileForm) -> HeaderFault | None:
    """Why a first line cannot be a header of its file's form; None if it can."""
    if line is None:
        return HeaderFault(what="has no end, or cannot be uncompressed", remedy="write the file again")
    no_text = _no_text(line)
    if no_text is not None:
        return no_text
    text = text_of(line, form.encoding)
    if text is None:
        return HeaderFault(
            what="is not in utf-8", remedy="declare its encoding, such as --file-form encoding=iso8859-1 or cp1252"
        )
    names = header_names(text, form)
    if text.lower().startswith("sep=") and len(text.strip()) <= len("sep=;"):
        return HeaderFault(what="tells a spreadsheet the separator, and is no header", remedy="remove the line")
    if not any(names):
        return HeaderFault(what="is empty", remedy="write the column names into the first line of each file")
    return _other_separator(text, names, form) or _misnamed(names)


def json_fault_of(line: bytes | None) -> HeaderFault | None:
    """Why a first line cannot be one of JSON lines; None if it can."""
    if not line:
        return None  # a long object, or no row yet
    text = line.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if text.startswith("{") and text != "{":
        return None
    return _no_text(line) or HeaderFault(
        what="is no JSON object by itself, as in a file that is one array or has an object over several lines",
        remedy="write each row as one object on a line of its own",
    )


def _no_text(line: bytes) -> HeaderFault | None:
    packed = next((what for mark, what in _PACKED.items() if line.startswith(mark)), None)
    if packed is not None:
        return HeaderFault(what=f"is no text: the file looks like {packed}", remedy="write it again as text")
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in line:
        return HeaderFault(what="is in an encoding of several bytes a character", remedy="write the files in utf-8")
    return None


def _other_separator(text: str, names: Sequence[str], form: FileForm) -> HeaderFault | None:
    counts = {
        sign: len(header_names(text, form.changed(separator=sign))) for sign in _SEPARATORS if sign != form.separator
    }
    best = max(counts, key=lambda sign: counts[sign])
    if counts[best] < max(2, 2 * len(names)):
        return None
    used = _SEPARATORS.get(form.separator, form.separator)
    return HeaderFault(
        what=f"has {counted(len(names), 'value')} if the separator is a {used}, and {counts[best]} if it is a "
        f"{_SEPARATORS[best]}",
        remedy=f"declare it: --file-form separator={_SEPARATORS[best]}",
    )


def _misnamed(names: Sequence[str]) -> HeaderFault | None:
    empty = [place for place, name in enumerate(names, start=1) if not name]
    if len(empty) > len(names) / 2:
        return HeaderFault(
            what=f"has text in {len(names) - len(empty)} of {len(names)} places, as a title above the header has",
            remedy="remove what is above the header",
        )
    if empty:
        return HeaderFault(
            what=f"names no column at {_places(empty)}",
            remedy="name it, or leave the column out; pandas writes one for its index unless index=False",
        )
    counted_names = Counter(name.lower() for name in names)
    doubled = [place for place, name in enumerate(names, start=1) if counted_names[name.lower()] > 1]
    if doubled:
        return HeaderFault(what=f"has one name more than once, at {_places(doubled)}", remedy="rename the columns")
    if not all(name.isprintable() for name in names):
        return HeaderFault(what="has characters that cannot be printed", remedy="declare the encoding, or rename them")
    return None


def unlike(names: Sequence[str], bound: Sequence[str]) -> HeaderFault | None:
    """How the names of a first line differ from the bound ones, with the positions; None if they are the same."""
    if list(names) == list(bound):
        return None
    if len(names) != len(bound):
        return HeaderFault(
            what=f"names {counted(len(names), 'column')}, and {len(bound)} are bound",
            remedy="bind all columns of the header, in its order",
        )
    pairs = list(enumerate(zip(names, bound, strict=True), start=1))
    places = [place for place, pair in pairs if pair[0] != pair[1]]
    if all(pair[0] == pair[1] or in_another_form(pair[0], [pair[1]]) is not None for _, pair in pairs):
        return HeaderFault(
            what=f"has the same letters as the bound columns, in another Unicode form at {_places(places)}",
            remedy="copy the names from the first line; they look the same",
        )
    return HeaderFault(
        what=f"differs from the bound columns at {_places(places)}",
        remedy="bind the columns as the header spells them, in its order; letters count",
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 file``, ``2 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _places(places: Sequence[int]) -> str:
    shown = ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")
    return f"place{'' if len(places) == 1 else 's'} {shown}"
