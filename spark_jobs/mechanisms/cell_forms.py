"""Linear inequalities between the numbers that a row adds for one value: they make jointly drawn noise smaller.

A value a, in [-1, 1], adds itself and ``q = 2 a^2 - 1`` to sums of its cell, and its row adds ``n = 1`` to the rows.
The cube of all (n, a, q) in [-1, 1] holds these vectors, and many that no row can produce. Each form below is a linear
inequality that holds for every such vector and its negative, with equality for some; the body of the noise is the cube
cut by these inequalities:

* ``|q + 4 a - n| <= 4``: ``2 (a + 1)^2 - 4`` is from -4 to 4. The same holds for -a: ``|q - 4 a - n| <= 4``.
* ``|4 q + 8 a - 3 n| <= 9``: ``8 (a + 1/2)^2 - 9`` is from -9 to 9. The same holds for -a.

If the size of the value, ``m = 2 |a| - 1``, is summed too, it has forms together with n, a and q:

* ``|m + 2 a - n| <= 2``: ``2 (|a| + a) - 2`` is from -2 to 2. The same holds for -a.
* ``|4 m - q - n| <= 4``: ``8 |a| - 2 a^2 - 4`` is from -4 to 2.
* ``|q - m| <= 1``: ``2 a^2 - 2 |a|`` is from -1/2 to 0. With the bound 1/2 instead of 1, the noise in ``a`` would be
  larger.

The standard deviations of the noise, times epsilon, are then 2.53, 2.18 and 2.45 for n, a and q, where the uncut cube
has 2.58 for each; the smallest body that holds the vectors of all rows would have 2.51, 2.16 and 2.46. They are 2.45,
2.00 and 2.45 for n, a and m, and 2.98, 2.37, 2.73 and 2.88 for n, a, m and q, where the cube has 3.16 for each. With
several measures, the forms of each apply to its own numbers.
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
