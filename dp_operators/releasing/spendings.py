"""What a draw says that its mechanisms spent, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import localcontext
from typing import Any

from spark_jobs.contract.privacy import MAX_DIGITS, delta_of_rows, exact_decimal, plain


def drawn_events(draw: Mapping[str, Any], *, max_rows: int) -> tuple[dict[str, str], ...] | None:
    """The events of the mechanisms that drew, for a whole privacy unit; None where the draw does not tell any.

    A draw tells what each mechanism spends on one row; a unit of several loses more (``delta_of_rows``).

    Args:
        draw: the opened draw's fields.
        max_rows: of one unit.
    """
    try:
        return tuple(_event(spending, max_rows) for spending in draw.get("events") or ()) or None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _event(spending: Mapping[str, Any], rows: int) -> dict[str, str]:
    epsilon, delta = exact_decimal(spending["epsilon"]), exact_decimal(spending["delta"])
    label = ": ".join(str(spending[name]) for name in ("diagnostic", "label") if spending.get(name))
    with localcontext(prec=4 * MAX_DIGITS):
        of_unit = {"label": label, "epsilon": plain(epsilon * rows)}
    if delta == 0:
        return {"mechanism": "pure", **of_unit}
    return {"mechanism": "approximate", **of_unit, "delta": plain(delta_of_rows(epsilon, delta, rows))}
