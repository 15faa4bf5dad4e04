"""Texts converted to their column's declared type, by the form of the table's files; null where a text does not fit.

The whole text must match the pattern of its form; it is then rewritten to the notation that TRY_CAST reads. So nothing
here can raise, and a text is read as a number or a date only if it looks like one.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark_jobs.contract.column_types import Kind, kind_of_type
from spark_jobs.contract.file_form import MONTHS, TOKENS, FileForm, pattern_parts

ASSUMED = FileForm()
UNPARSED = "__dp_unparsed"
"""A struct beside the columns of a text table: for each, whether a text of the row is no value of its type."""


def converted(text: Column, type_name: str, form: FileForm = ASSUMED) -> Column:
    """``text``, in this form, as one of the contract's ``TEXT_TYPES`` or a decimal; like TRY_CAST, it never raises.

    A whole number may be written ``1.0``, as programs write it if another value of its column is missing.
    """
    kind = kind_of_type(type_name)
    value = without_nulls(text, form)
    if type_name == "string":
        return value
    if kind is Kind.BOOLEAN and (form.true or form.false):
        known = sf.when(value.isin(*form.true), True) if form.true else sf.when(sf.lit(False), True)
        return known.when(value.isin(*form.false), False) if form.false else known
    if kind in (Kind.INTEGER, Kind.NUMBER):
        value = _plain_number(value, form)
    if kind in (Kind.INTEGER, Kind.BOOLEAN):
        value = sf.regexp_replace(value, r"^(\s*[+-]?\d+)\.0*(\s*)$", "$1$2")
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return _instant(value, type_name, form)
    return value.try_cast(type_name)


def unparsed(text: Column, type_name: str, form: FileForm = ASSUMED) -> Column:
    """Whether ``text`` is present, but is no value of its column's type."""
    return without_nulls(text, form).isNotNull() & converted(text, type_name, form).isNull()


def without_nulls(text: Column, form: FileForm) -> Column:
    """``text``, or null if it is one of the texts that stand for a missing value."""
    return sf.when(~text.isin(*form.null), text) if form.null else text


def _plain_number(text: Column, form: FileForm) -> Column:
    """A number with a point, without grouping and percent signs; null for a text that is no number of this form."""
    if (form.decimal, form.thousands, form.percent) == (".", "", False):
        return text
    point, group = re.escape(form.decimal), re.escape(form.thousands)
    grouped = rf"\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}}|" if group else ""
    number = rf"(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    word = r"(?i:nan|inf(?:inity)?)"
    plain = sf.translate(text, form.thousands, "") if form.thousands else text
    plain = sf.translate(plain, ",", ".") if form.decimal == "," else plain
    plain = sf.trim(plain)
    shape = rf"^\s*[+-]?(?:{number}|{word})\s*$"
    if not form.percent:
        return sf.when(text.rlike(shape), plain)
    hundredths = sf.concat(sf.regexp_replace(plain, r"\s*%$", ""), sf.lit("e-2"))
    as_percent = rf"^\s*[+-]?(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)\s*%\s*$"
    return sf.when(text.rlike(as_percent), hundredths).when(text.rlike(shape), plain)


def _instant(text: Column, type_name: str, form: FileForm) -> Column:
    """A date or a timestamp, in its declared form if there is one."""
    pattern = form.date if type_name == "date" else form.timestamp
    if pattern:
        return _in_iso(text, pattern, dated=type_name == "date").try_cast(type_name)
    if type_name == "timestamp":
        # a time of day alone would become a timestamp of the day of the run
        return sf.when(text.rlike(r"^\s*[+-]?\d{4,}-"), text.try_cast(type_name))
    return text.try_cast(type_name)


def _in_iso(text: Column, pattern: str, *, dated: bool) -> Column:
    """A text of the form ``pattern`` in the order of ISO 8601; null for a text of another form."""
    shape, places = r"^\s*", dict[str, int]()
    for part in pattern_parts(pattern) or ():
        token = "S" if part.startswith("S") else part
        if token in TOKENS:
            shape += TOKENS[token]
            places[token] = len(places) + 1
        else:
            shape += re.escape(part.strip("'") if part.startswith("'") else part)
    shape += r"\s*$"

    def part_of(*tokens: str) -> Column | None:
        token = next((token for token in tokens if token in places), None)
        return None if token is None else sf.regexp_extract(text, shape, places[token])

    year = part_of("yyyy") if "yyyy" in places else sf.concat(sf.lit("20"), part_of("yy"))  # type: ignore[arg-type]
    name = part_of("MMM")
    month = part_of("MM", "M") if name is None else _month(name)
    iso = sf.concat_ws("-", year, month, part_of("dd", "d"))  # type: ignore[arg-type]
    if not dated:
        hour = part_of("HH", "H")
        if hour is None and (half := part_of("hh", "h")) is not None:
            hour = _hour_of_half(half, sf.upper(part_of("a")))  # type: ignore[arg-type]
        parts = [part for part in (hour, part_of("mm"), part_of("ss")) if part is not None]
        clock = sf.concat_ws(":", *parts, *(sf.lit("00") for _ in range(len(parts), 2))) if parts else sf.lit("00:00")
        fraction, zone = part_of("S"), part_of("XXX")
        clock = clock if fraction is None else sf.concat(clock, sf.lit("."), sf.substring(fraction, 1, 6))
        iso = sf.concat(iso, sf.lit(" "), clock if zone is None else sf.concat(clock, zone))
    return sf.when(text.rlike(shape), iso)


def _month(name: Column) -> Column:
    place = sf.instr(sf.lit(MONTHS), sf.upper(name))
    return ((place + 2) / 3).cast("int").cast("string")


def _hour_of_half(hour: Column, half: Column) -> Column:
    """The hour from 0 to 23 of one from 1 to 12; 99, which is none, for others."""
    number = hour.try_cast("int")
    whole = sf.pmod(number, sf.lit(12)) + sf.when(half == "PM", 12).otherwise(0)
    return sf.when(number.between(1, 12), whole).otherwise(99).cast("string")
