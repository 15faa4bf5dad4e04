"""Linear inequalities between a row's numbers from one value, by which noise that is drawn together becomes smaller.

A value a, in [-1, 1], adds itself and ``q = 2 a^2 - 1`` to sums of its cell, and its row adds ``n = 1`` to the rows.
The cube of all (n, a, q) in [-1, 1] holds these vectors, and many that no row can produce. Each form below is a linear
inequality that holds for every such vector and its negative, with equality for some; the body of the noise is the cube
cut by these inequalities:

* ``|q + 4 a - n| <= 4``: ``2 (a + 1)^2 - 4`` is from -4 to 4. The same holds for -a: ``|q - 4 a - n| <= 4``.
* ``|4 q + 8 a - 3 n| <= 9``: ``8 (a + 1/2)^2 - 9`` is from -9 to 9. The same holds for -a.

A size, ``m = 2 |a| - 1``, has forms with each of these:

* ``|m + 2 a - n| <= 2``: ``2 (|a| + a) - 2`` is from -2 to 2. The same holds for -a.
* ``|4 m - q - n| <= 4``: ``8 |a| - 2 a^2 - 4`` is from -4 to 2.
* ``|q - m| <= 1``: ``2 a^2 - 2 |a|`` is from -1/2 to 0. A bound of 1/2 would make the noise in a larger.

Noise of (n, a, q) then has standard deviations 2.53, 2.18 and 2.45 divided by epsilon, in place of the cube's 2.58; the
smallest body of all would have 2.51, 2.16 and 2.46. Noise of (n, a, m) has 2.45, 2.00 and 2.45, and that of (n, a, m,
q) 2.98, 2.37, 2.73 and 2.88, in place of 3.16. With several measures, each has its own forms, side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_jobs.contract.options.measures import Term


class CellForm(NamedTuple):
    """``|weights . z| <= bound`` for every change z of (rows, terms...) by one row, in units of one row."""

    weights: tuple[int, ...]
    bound: int


_OF_POWERS: tuple[tuple[dict[str, int], int], ...] = (
    ({"rows": -1, "value": 4, "square": 1}, 4),
    ({"rows": -1, "value": -4, "square": 1}, 4),
    ({"rows": -1, "value": 2, "size": 1}, 2),
    ({"rows": -1, "value": -2, "size": 1}, 2),
    ({"rows": -1, "size": 4, "square": -1}, 4),
    ({"size": -1, "square": 1}, 1),
    ({"rows": -3, "value": 8, "square": 4}, 9),
    ({"rows": -3, "value": -8, "square": 4}, 9),
)
"""The forms of one measure, by what is summed of it."""


def forms_of(terms: Sequence[Term]) -> tuple[CellForm, ...]:
    """The inequalities that the change by any row satisfies; there are none for a measure with a single term."""
    forms = []
    for measure in dict.fromkeys(term.measure for term in terms):
        place = {"rows": 0} | {term.power: 1 + at for at, term in enumerate(terms) if term.measure == measure}
        for of_powers, bound in _OF_POWERS:
            if of_powers.keys() <= place.keys() and len(place) > 2:
                weights = [0] * (1 + len(terms))
                for power, weight in of_powers.items():
                    weights[place[power]] = weight
                forms.append(CellForm(tuple(weights), bound))
    return tuple(forms)
