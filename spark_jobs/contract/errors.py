"""The one error a user meets: a request, a schema or a configuration that cannot be served.

Bad *data* never raises it: which error, or whether there is one, would be an exact answer about people.
"""

from __future__ import annotations


class RequestRefused(ValueError):
    """A request, schema or configuration that cannot be served, in one line.

    Args:
        what: the field, parameter or thing that is wrong, e.g. ``"budget.epsilon"``.
        given: what the user gave there; never a data value.
        bound: what would be accepted.
        remedy: what to do about it.
    """

    def __init__(self, what: str, *, given: object = None, bound: str, remedy: str) -> None:
        self.what = what
        self.given = None if given is None else _short(given)
        self.bound = bound
        self.remedy = remedy
        super().__init__(self._line())

    def __reduce__(self) -> tuple[object, ...]:
        # an exception is otherwise made again from its text alone, which is no argument of any of these
        return (_restored, (type(self), self.args, vars(self)))

    def to_dict(self) -> dict[str, str | None]:
        """The fields, to carry the refusal across a process boundary."""
        return {"what": self.what, "given": self.given, "bound": self.bound, "remedy": self.remedy}

    @classmethod
    def from_dict(cls, fields: dict[str, str | None]) -> RequestRefused:
        """The refusal that ``to_dict`` described."""
        refusal = cls(str(fields["what"]), bound=str(fields["bound"]), remedy=str(fields["remedy"]))
        refusal.given = fields.get("given")
        refusal.args = (refusal._line(),)
        return refusal

    def within(self, part: str) -> RequestRefused:
        """The same refusal, about a field of ``part``."""
        return RequestRefused.from_dict({**self.to_dict(), "what": f"{part}.{self.what}".rstrip(".")})

    def _line(self) -> str:
        what = f"{self.what}: " if self.what else ""
        got = "" if self.given is None else f"got {self.given}; "
        return " ".join(f"{what}{got}{self.bound}; {self.remedy}".split())


def _restored(kind: type[RequestRefused], args: tuple[object, ...], fields: dict[str, object]) -> RequestRefused:
    """The refusal that another process raised."""
    refusal = kind.__new__(kind, *args)
    vars(refusal).update(fields)
    return refusal


def _short(value: object, limit: int = 120) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
