"""The history of released figures: what the ledger recorded with each commit, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dp_operators.budget.values import Charge
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import ENDS
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.values import did_you_mean

_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class RecordedFigure:
    """A figure of a committed release.

    Attributes:
        at: when the release was committed; UTC, ISO 8601.
        name: the figure's name (``contract.figure_names``), with the end of an interval if that end was asked for.
        value: the number; None if it is undefined.
        interval, population: the ends of the two confidence intervals, for the table's figure and for its population's;
            None if there is no such interval, or if the figure is itself an end of one.
        status: the status of the result that has the figure.
        epsilon: the epsilon that the whole release cost; 0 if its cost is a rho.
        cost: what the whole release cost, in words: ``epsilon 0.1``, or ``rho 0.005``.
        release: the release key.
        charge: the charge's id.
    """

    at: str
    name: str
    value: float | None
    interval: tuple[float, float] | None
    population: tuple[float, float] | None
    status: str
    epsilon: str
    cost: str
    release: str
    charge: str


def figure_history(charges: Iterable[Charge], name: str) -> tuple[RecordedFigure, ...]:
    """The recorded figures of the given name, in the order of their charges.

    Args:
        charges: the charges of an account.
        name: a name, or its beginning up to a dot: ``roc_curve`` stands for all headline figures of that kind.

    Raises:
        InvalidRequest: none of the charges has such a figure.
    """
    known = [(charge, dict(entry)) for charge in charges for entry in charge.figures or ()]
    matching = tuple(
        _recorded(charge, entry, end)
        for charge, entry in known
        if (end := _end_of(name, str(entry["name"]))) is not None
    )
    if not matching:
        names = list(dict.fromkeys(str(entry["name"]) for _, entry in known))
        raise InvalidRequest(
            "figure",
            name,
            "must be a figure that the ledger recorded: "
            + (", ".join(names[:_SHOWN]) or "it has none of this account's releases"),
            "write kind.figure, or kind.figure.lower and kind.figure.upper for the ends of its "
            f"interval{did_you_mean(name, names[:1000])}",
        )
    return matching


def _end_of(wanted: str, recorded: str) -> str | None:
    """The end of the recorded figure that is wanted, empty for the figure itself; None if it is another figure."""
    if recorded == wanted or recorded.startswith(f"{wanted}."):
        return ""
    end = wanted[len(recorded) + 1 :]
    return end if wanted.startswith(f"{recorded}.") and end in ENDS else None


def _recorded(charge: Charge, entry: Mapping[str, Any], end: str) -> RecordedFigure:
    ends = {part: None if (pair := entry[part]) is None else (pair[0], pair[1]) for part in ("interval", "population")}
    value = entry["value"]
    if end:
        of_end = ends["population" if end.startswith("population") else "interval"]
        value, ends = None if of_end is None else of_end[end.endswith("upper")], {"interval": None, "population": None}
    return RecordedFigure(
        at=str(charge.settled_at),
        name=".".join(filter(None, (str(entry["name"]), end))),
        value=value,
        **ends,
        status=str(entry["status"]),
        epsilon=plain(charge.cost.epsilon),
        cost=charge.cost.amount,
        release=charge.release,
        charge=charge.id,
    )
