"""The error that users see: a request, schema or configuration that cannot be served.

The *data* never causes it: whether there is an error, and which one, would be an exact answer about people.
"""

from __future__ import annotations


class InvalidRequest(ValueError):
    """A request, schema or configuration that cannot be served; its message is one line.

    Args:
        field: the field, parameter or object that is wrong, e.g. ``"budget.epsilon"``.
        value: what the user gave there, or None; never a value from the data.
        requirement: what would be accepted.
        remedy: what the user can do about it.
    """

    def __init__(self, field: str, value: object, requirement: str, remedy: str) -> None:
        self.field = field
        self.value = None if value is None else _short(value)
        self.requirement = requirement
        self.remedy = remedy
        super().__init__(self._line())

    def __reduce__(self) -> tuple[object, ...]:
        # by default an exception is unpickled from its message alone, which is not what its class takes
        return (_restored, (type(self), self.args, vars(self)))

    def to_dict(self) -> dict[str, str | None]:
        """The fields as plain JSON types, to pass the error to another process."""
        return {"field": self.field, "value": self.value, "requirement": self.requirement, "remedy": self.remedy}

    @classmethod
    def from_dict(cls, fields: dict[str, str | None]) -> InvalidRequest:
        """The error that ``to_dict`` described."""
        refusal = cls(str(fields["field"]), None, str(fields["requirement"]), str(fields["remedy"]))
        refusal.value = fields.get("value")
        refusal.args = (refusal._line(),)
        return refusal

    def within(self, part: str) -> InvalidRequest:
        """The same error, with its field named as one inside ``part``."""
        return InvalidRequest.from_dict({**self.to_dict(), "field": f"{part}.{self.field}".rstrip(".")})

    def _line(self) -> str:
        field = f"{self.field}: " if self.field else ""
        got = "" if self.value is None else f"got {self.value}; "
        return " ".join(f"{field}{got}{self.requirement}; {self.remedy}".split())


def _restored(kind: type[InvalidRequest], args: tuple[object, ...], fields: dict[str, object]) -> InvalidRequest:
    """Unpickle the error that another process raised."""
    refusal = kind.__new__(kind, *args)
    vars(refusal).update(fields)
    return refusal


def _short(value: object, limit: int = 120) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
