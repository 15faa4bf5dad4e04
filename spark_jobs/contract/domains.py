"""What a column may hold, as an account's administrator declares it: listed values, a range, log-odds or a period.

A domain is public knowledge: it must never come from rows, from a file's statistics, or from anything computed from
them but not released. It gives requests their bounds, cells, label values, groups and scales, and is written as::

    in ('yes', 'no')                          listed values
    in @regions                               the values of a key list that is registered for the account
    between 0 and 120                         a range of numbers
    between 0 and 5000 step 0.01              whose values are whole steps from the lower end
    between 0 and 10000000 log                over several orders of magnitude
    between 300 and 850 score                 scores on this scale; `score` alone is between 0 and 1
    logit                                     scores that are log-odds, without bounds
    between '2024-01-01' and '2030-01-01'     a period of dates or timestamps, with both ends
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import MAX_BOUND
from spark_jobs.contract.values import Frozen

MAX_LISTED = 1000
"""The most values that are listed in a domain; longer lists are registered, and named by it."""
FORMS = "in ('a', 'b'), in @LIST, between A and B [step S] [log or score], score, logit, or between 'DATE' and 'DATE'"
"""The forms of a domain, for messages."""
Scale = Literal["log", "score"]
Value = str | int | Decimal | bool
_WHOLE_TYPES = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?(?![\w.]))"
    r"|(?P<list>@(?:[\w.-]+|`(?:[^`]|``)+`))|(?P<word>\w+)|(?P<mark>[(),]))",
    re.ASCII,
)


class ListedValues(Frozen):
    """The domain of a column whose values are listed.

    Attributes:
        values: the values, each once; empty if ``list`` is given.
        list: the name of a key list that is registered for the account; None if ``values`` has the values.
    """

    values: Annotated[tuple[Value, ...], Field(max_length=MAX_LISTED)] = ()
    list: Annotated[str, Field(min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ((value, times),) = Counter(map(str, self.values)).most_common(1) or [("", 0)]
        if times > 1:
            raise InvalidRequest("", value, "must be listed only once", "remove the repeated value")
        if (self.list is None) != bool(self.values):
            raise InvalidRequest(
                "",
                None,
                "must name at least one value, or one registered list, after `in`",
                "write it like `in ('yes', 'no')` or `in @plans`",
            )
        return self

    def __str__(self) -> str:
        if self.list is not None:
            plain_name = re.fullmatch(r"[\w.-]+", self.list, re.ASCII)
            return f"in @{self.list}" if plain_name else f"in @`{self.list.replace('`', '``')}`"
        return f"in ({', '.join(map(literal, self.values))})"


class ValueRange(Frozen):
    """The domain of a column of numbers between two bounds; a number beyond a bound counts as that bound.

    Attributes:
        lower, upper: the bounds.
        step: the values are ``lower`` plus whole multiples of this step; None if any number may occur.
        scale: ``log`` for numbers over several orders of magnitude, ``score`` for a model's scores, None otherwise.
    """

    lower: Decimal
    upper: Decimal
    step: Decimal | None = None
    scale: Scale | None = None

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        sizes = (abs(self.lower), abs(self.upper))
        if not (self.lower < self.upper and max(sizes) <= MAX_BOUND and self.upper - self.lower >= 1 / MAX_BOUND):
            raise InvalidRequest(
                "", str(self), "must be two numbers in ascending order, both between -1e100 and 1e100",
                "write the smaller number first",
            )  # fmt: skip
        if self.step is not None and (self.step <= 0 or not divides(self.step, self.lower, self.upper)):
            raise InvalidRequest(
                "", str(self), "must have a step above 0 that divides the range into whole steps",
                "change the step, or a bound",
            )  # fmt: skip
        if self.step is not None and self.scale == "log":
            raise InvalidRequest("", str(self), "must have a step or the scale log, not both", "leave one of them out")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """The lower and the upper bound, as floats."""
        return float(self.lower), float(self.upper)

    def __str__(self) -> str:
        step = "" if self.step is None else f" step {number(self.step)}"
        scale = "" if self.scale is None else f" {self.scale}"
        return f"between {number(self.lower)} and {number(self.upper)}{step}{scale}"


class LogOdds(Frozen):
    """The domain of a column of scores that are log-odds of a probability: any number."""

    def __str__(self) -> str:
        return "logit"


class Period(Frozen):
    """The domain of a column of dates or timestamps between two moments, both included.

    Attributes:
        start, end: the two moments in ISO 8601, without a time zone, in UTC.
    """

    start: str
    end: str

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if not moment(self.start) < moment(self.end):
            raise InvalidRequest(
                "", str(self), "must be two moments in ascending order", "write the earlier moment first"
            )
        return self

    @property
    def interval(self) -> tuple[dt.datetime, dt.datetime]:
        """The start and the end of the period, in UTC."""
        return moment(self.start).replace(tzinfo=dt.UTC), moment(self.end).replace(tzinfo=dt.UTC)

    def __str__(self) -> str:
        return f"between {literal(self.start)} and {literal(self.end)}"


Domain = ListedValues | ValueRange | LogOdds | Period


def parse_domain(text: str) -> Domain:
    """The domain in ``text``; ``str`` of a domain is its canonical text.

    Raises:
        InvalidRequest: the text has none of the forms; the error's field is empty, for the caller to add.
    """
    reader = Reader(text)
    domain = reader.domain()
    if domain is None or not reader.at_end:
        raise not_a_domain(text)
    return domain


def not_a_domain(text: str) -> InvalidRequest:
    """The error for a text that is not a domain."""
    return InvalidRequest("", text.strip(), f"must be one of: {FORMS}", "correct it")


class Reader:
    """Reads domains from a text, from left to right.

    Attributes:
        text: the text.
        place: the index of the next character to read.
    """

    def __init__(self, text: str, place: int = 0) -> None:
        self.text, self.place = text, place

    @property
    def at_end(self) -> bool:
        """Whether nothing but blanks is left."""
        return not self.text[self.place :].strip()

    def word(self) -> str:
        """Read the next word, and return it in lower case; empty, with nothing read, if no word is next."""
        match = _TOKEN.match(self.text, self.place)
        if match is None or match["word"] is None:
            return ""
        self.place = match.end()
        return match["word"].lower()

    def domain(self) -> Domain | None:
        """Read the next domain, and return it; None, with nothing read, if no domain is next.

        Raises:
            InvalidRequest: the text begins like a domain and is not one.
        """
        begin = self.place
        match self.word():
            case "in":
                return self._listed()
            case "between":
                return self._between()
            case "score":
                return ValueRange(lower=Decimal(0), upper=Decimal(1), scale="score")
            case "logit":
                return LogOdds()
        self.place = begin
        return None

    def _listed(self) -> ListedValues:
        named = self._token("list")
        if named:
            quoted = named.startswith("@`")
            return ListedValues(list=named[2:-1].replace("``", "`") if quoted else named[1:])
        self._expect("(")
        values = [self._value()]
        while (mark := self._token("mark")) == ",":
            values.append(self._value())
        if mark != ")":
            raise not_a_domain(self.text)
        return ListedValues(values=tuple(values))

    def _between(self) -> Domain:
        lower = self._value()
        if self.word() != "and":
            raise not_a_domain(self.text)
        upper = self._value()
        if isinstance(lower, str) and isinstance(upper, str):
            return Period(start=lower, end=upper)
        if any(isinstance(end, (str, bool)) for end in (lower, upper)):
            raise not_a_domain(self.text)
        step, scale = None, None
        begin, word = self.place, self.word()
        if word == "step":
            step = self._value()
            if isinstance(step, (str, bool)):
                raise not_a_domain(self.text)
            step = Decimal(step)
            begin, word = self.place, self.word()
        if word in ("log", "score"):
            scale = word
        else:
            self.place = begin
        return ValueRange.parse({"lower": Decimal(lower), "upper": Decimal(upper), "step": step, "scale": scale})

    def _value(self) -> Value:
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            raise not_a_domain(self.text)
        self.place = match.end()
        if match["text"] is not None:
            return match["text"][1:-1].replace("''", "'")
        if match["number"] is not None:
            exact = Decimal(match["number"])
            return int(match["number"]) if re.fullmatch(r"[-+]?\d+", match["number"]) else exact
        if (match["word"] or "").lower() in ("true", "false"):
            return match["word"].lower() == "true"
        raise not_a_domain(self.text)

    def _token(self, kind: str) -> str:
        match = _TOKEN.match(self.text, self.place)
        if match is None or match[kind] is None:
            return ""
        self.place = match.end()
        return match[kind]

    def _expect(self, mark: str) -> None:
        if self._token("mark") != mark:
            raise not_a_domain(self.text)


def require_fits(domain: Domain, type_text: str, kind: Kind | None) -> None:
    """Reject a domain that contradicts the type of its column.

    Args:
        domain: the domain.
        type_text: the column's type, in its canonical spelling.
        kind: the kind of the column's values; None for a type that cannot be read.

    Raises:
        InvalidRequest: the domain contradicts the type; the error's field is empty, for the caller to add.
    """
    numeric = kind in (Kind.INTEGER, Kind.NUMBER)
    match domain:
        case ListedValues(list=None, values=values):
            fits = all(_is_of(value, kind) for value in values)
        case ListedValues():
            fits = kind in (Kind.STRING, Kind.INTEGER)
        case ValueRange():
            fits = numeric and (kind is Kind.NUMBER or _is_whole(domain, _WHOLE_TYPES[type_text]))
        case LogOdds():
            fits = kind is Kind.NUMBER
        case Period(start=start, end=end):
            days = all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in (start, end))
            fits = kind is Kind.TIMESTAMP or (kind is Kind.DATE and days)
    if not fits:
        raise InvalidRequest(
            "", str(domain), f"must be a domain of values of type {type_text}",
            "give values that a column of this type can hold, or correct the type",
        )  # fmt: skip


def _is_of(value: Value, kind: Kind | None) -> bool:
    if isinstance(value, bool) or kind is Kind.BOOLEAN:
        return isinstance(value, bool) and kind is Kind.BOOLEAN
    if isinstance(value, str):
        return kind is Kind.STRING
    return kind is Kind.NUMBER or (kind is Kind.INTEGER and isinstance(value, int) and -(2**63) <= value < 2**63)


def _is_whole(domain: ValueRange, bits: int) -> bool:
    ends = (domain.lower, domain.upper, domain.step or Decimal(1))
    within = -(2**bits) <= domain.lower and domain.upper < 2**bits
    return within and all(end == end.to_integral_value() for end in ends)


def divides(step: Decimal, lower: Decimal, upper: Decimal) -> bool:
    """Whether ``upper`` is exactly a whole number of steps above ``lower``."""
    return (Fraction(upper) - Fraction(lower)) % Fraction(step) == 0


def moment(text: str) -> dt.datetime:
    """The moment in a text without a time zone.

    Raises:
        InvalidRequest: the text is not a moment; the error's field is empty, for the caller to add.
    """
    with suppress(ValueError):
        parsed = dt.datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            return parsed
    raise InvalidRequest(
        "", text, "must be a date or a time without a time zone, which is taken as UTC",
        "write it like '2024-01-01' or '2024-01-01 12:00:00'",
    )  # fmt: skip


def number(value: Decimal) -> str:
    """The text of a number in a domain."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return "0"
    power = int(exponent) + len(text) - len(kept)
    shown = Decimal((sign, tuple(map(int, kept)), power))
    return f"{shown:f}" if -20 < power < 20 else f"{'-' if sign else ''}{kept}e{power}"


def literal(value: Value) -> str:
    """The text of a listed value in a domain."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).lower()
    return number(value) if isinstance(value, Decimal) else str(value)
