"""A bound on the rows of a unit below the account's: a given number, one yet to be chosen, or a released one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import Options, require_filled_in
from spark_jobs.contract.privacy import ExactDecimal, GroupBound, PrivacyUnit, exact_decimal, plain
from spark_jobs.contract.values import Frozen

MAX_ROWS = 1_000_000
"""The most rows of a unit, or of its groups."""
AUTO = "auto"
"""What a request writes for a bound that is to be chosen."""
SMALLEST_CHOICE_SHARE = Decimal("0.02")
"""Unless a request gives a smaller one."""
MAX_CHOICE_SHARE = Decimal("0.5")


class ReleasedBound(Frozen):
    """A bound on the rows of a unit that an earlier release has chosen.

    Attributes:
        rows: the bound.
        epsilon: the epsilon that was charged for that release.
        released_by: the key of that release.
        release: the folder of that release; None in an uncharged draft.
    """

    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    epsilon: ExactDecimal
    released_by: str
    release: str | None = None


RowBound = int | Literal["auto"] | ReleasedBound


def row_bound(value: Any) -> Any:
    """A field validator that turns a bound as it is written into a ``RowBound``.

    Raises:
        InvalidRequest: the value is not a bound.
    """
    if value is None or value == AUTO or isinstance(value, ReleasedBound):
        return value
    if isinstance(value, Mapping):
        return ReleasedBound.parse(require_filled_in(value))
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d{1,20}", value.strip(), re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ROWS:
        raise InvalidRequest(
            "", value, f"must be a whole number from 1 to {MAX_ROWS}, auto, or a release that has chosen such a number",
            "give a number of rows, or leave it out to use the account's bound",
        )  # fmt: skip
    return value


def choice_share(value: Any) -> Decimal | None:
    """A field validator of the share of epsilon that a choice may cost.

    Raises:
        InvalidRequest: the share is not above 0, or too large.
    """
    if value is None:
        return None
    part = exact_decimal(value, what="")
    if not 0 < part <= MAX_CHOICE_SHARE:
        raise InvalidRequest(
            "", plain(part), f"must be above 0 and at most {MAX_CHOICE_SHARE}",
            "leave it out for a share that fits the number of cells",
        )  # fmt: skip
    return part


OF_ROWS = ("max_rows", "max_rows_limit", "max_rows_share")
"""The options of ``RowBoundOptions``."""


class RowBoundOptions(Options):
    """Options of a kind of diagnostic that may use fewer rows of a unit than the account allows.

    The account's bound is the most rows of a unit that a request may use. A request may take any lower bound; choosing
    one from the data is paid for like any other release.

    Attributes:
        max_rows: the most rows of a unit, at most the account's; ``auto`` for a bound that a separate release chooses
            first, under differential privacy; or ``{"release": URI}`` of a release that has chosen one.
        max_rows_limit: with ``auto``, the largest bound that may be chosen; the account's if left out.
        max_rows_share: with ``auto``, the share of epsilon that the choice costs; by default between 0.02 and 0.5, the
            larger, the fewer cells the table has.
    """

    max_rows: RowBound | None = None
    max_rows_limit: int | None = None
    max_rows_share: ExactDecimal | None = None

    _bound = field_validator("max_rows", mode="before")(row_bound)
    _share = field_validator("max_rows_share", mode="before")(choice_share)

    @field_validator("max_rows_limit")
    @classmethod
    def _of_rows(cls, value: int | None) -> int | None:
        if value is not None and not 1 <= value <= MAX_ROWS:
            raise InvalidRequest(
                "", value, f"must be a whole number from 1 to {MAX_ROWS}", "leave it out for the account's bound"
            )
        return value

    @property
    def used_rows(self) -> int | None:
        """The most rows of a unit that are used, or may be chosen; None if the request gives no bound."""
        return rows_of(self.max_rows) if self.max_rows_limit is None else self.max_rows_limit

    @property
    def chooses_rows(self) -> bool:
        """Whether a separate release has yet to choose how many rows of a unit are used."""
        return self.max_rows == AUTO

    def require_row_bound(self, unit: PrivacyUnit, *, alone: bool) -> None:
        """Refuse a bound that does not fit the request's unit or its other options.

        Args:
            unit: the account's privacy unit, with its bound on rows.
            alone: whether no other option bounds the rows of a unit.

        Raises:
            InvalidRequest: the bound, its limit or its share does not fit.
        """
        bound = self.max_rows
        for name, given in (("max_rows_limit", self.max_rows_limit), ("max_rows_share", self.max_rows_share)):
            if given is not None and bound != AUTO:
                raise InvalidRequest(name, str(given), "must be left out unless max_rows is auto", "leave it out")
        if bound is None:
            return
        shown = bound.rows if isinstance(bound, ReleasedBound) else bound
        if not alone:
            raise InvalidRequest(
                "max_rows", shown, "cannot be combined with max_groups or keys: discover",
                "leave max_rows out, or leave the other option out",
            )  # fmt: skip
        if unit.column is None:
            raise InvalidRequest(
                "max_rows", shown, "must be left out where every row is a unit of its own",
                "name the unit's column in unit.column, or leave it out",
            )  # fmt: skip
        if bound == AUTO and unit.max_rows == 1:
            raise InvalidRequest(
                "max_rows", AUTO, "must be left out if the account allows only one row of a unit, because there is "
                "then nothing to choose",
                "leave it out, or use an account that allows more rows of a unit",
            )  # fmt: skip
        if (self.used_rows or 1) > unit.max_rows:
            raise InvalidRequest(
                "max_rows_limit" if bound == AUTO else "max_rows", self.used_rows,
                f"must be at most unit.max_rows, which is {unit.max_rows}",
                "give fewer rows, or leave it out to use the account's bound",
            )  # fmt: skip


def rows_of(bound: RowBound | None) -> int | None:
    """The number of rows that a bound allows; None if there is no bound, or it has yet to be chosen."""
    if isinstance(bound, ReleasedBound):
        return bound.rows
    return bound if isinstance(bound, int) else None


def require_group_bound(max_groups: int | None, max_rows_per_group: int | None, *, once: bool) -> None:
    """Refuse bounds on a unit's groups, and on its rows in each, that are out of range or given without one another.

    If a unit counts ``once`` in a group, only ``max_groups`` is needed.

    Raises:
        InvalidRequest: a bound is refused.
    """
    for name, number in (("max_groups", max_groups), ("max_rows_per_group", max_rows_per_group)):
        if number is not None and not 1 <= number <= MAX_ROWS:
            raise InvalidRequest(
                name,
                number,
                f"must be a whole number from 1 to {MAX_ROWS}",
                "give the largest number that one unit may have, such as 3",
            )
    if not once and (max_groups is None) != (max_rows_per_group is None):
        lacking, given = "max_groups", "max_rows_per_group"
        if max_groups is not None:
            lacking, given = given, lacking
        raise InvalidRequest(
            lacking, None, f"must be given together with {given}",
            "give both: the largest number of groups of a unit, and the largest number of its rows in one group",
        )  # fmt: skip


def require_within_unit(bound: GroupBound | None, unit: PrivacyUnit) -> None:
    """Refuse bounds on groups, and on rows in each, whose product exceeds the account's bound on rows.

    Raises:
        InvalidRequest: the product is too large.
    """
    if bound is not None and bound.rows_of_unit > unit.max_rows:
        raise InvalidRequest(
            "max_groups", f"{bound.groups} groups of {bound.rows}",
            f"must allow a unit at most {unit.max_rows} rows in all its groups together, which is unit.max_rows",
            "lower max_groups or max_rows_per_group",
        )  # fmt: skip
