"""Inequalities between the numbers of one value: every value keeps them, some reach them, noise is smaller by them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaincc

from spark_jobs.contract.options import Measured
from spark_jobs.contract.options.measures import terms_of
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.cell_forms import forms_of
from spark_jobs.mechanisms.cell_sums import noise_of_cells, noisy_cell_sums
from spark_jobs.mechanisms.noise import SeededNoise

NUMBERS = {"value": lambda a: a, "size": lambda a: 2 * np.abs(a) - 1, "square": lambda a: 2 * a**2 - 1}
LAW = [
    (("variance",), [2.53, 2.18, 2.45]),
    (("mean", "sum"), [2.0, 2.0]),
    (("mae",), [2.0, 2.0]),
    (("mae", "bias"), [2.45, 2.0, 2.45]),
    (("mae", "rmse", "bias"), [2.98, 2.37, 2.73, 2.88]),
]


FORMS = {
    (("variance",),): 4,
    (("sd",), ("mean",)): 4,
    (("mean",), ("variance",), ("sd", "mean")): 8,
    (("mae", "pinball_0.9"),): 2,
    (("rmse", "mae"),): 2,
    (("mae", "rmse", "bias"), ("sd",)): 12,
}


def terms(*figures):
    return terms_of(tuple(Measured(of=f"v{place}", bounds=(-1, 1), figures=of) for place, of in enumerate(figures)))


def rows_of(of, values):
    """What rows add to a cell: shape (rows, 1 + terms)."""
    return np.stack([np.ones(values.shape[1]), *(NUMBERS[term.power](values[term.measure]) for term in of)], axis=1)


@pytest.mark.parametrize("figures", list(FORMS))
def test_every_row_keeps_all_forms_and_some_reach_each(figures):
    of = terms(*figures)
    line = np.linspace(-1, 1, 2001)
    values = np.array([np.roll(line, 701 * place) for place in range(len(figures))])
    forms = forms_of(of)
    assert len(forms) == FORMS[figures]
    for form in forms:
        reached = np.abs(rows_of(of, values) @ np.array(form.weights)).max()
        # the one of sizes and squares is half as wide as it might be
        bound = 0.5 if sum(map(abs, form.weights)) == 2 else form.bound
        assert reached == pytest.approx(bound, rel=1e-6)
        assert reached <= form.bound + 1e-9


def assert_shown_from_a_number_that_noise_seldom_exceeds(drawn):
    """The tail of the body of one value and its square, by rejection from the cube and the gamma law of its radius."""
    n, a, q = np.random.default_rng(4).uniform(-1, 1, (3, 500_000))
    inside = np.abs(q) <= 1
    for sign in (-1, 1):
        inside &= (np.abs(q + 4 * sign * a - n) <= 4) & (np.abs(4 * q + 8 * sign * a - 3 * n) <= 9)
    for chance in (1e-3, 1e-5):
        far = drawn.law.count_above(chance)
        assert gammaincc(4, far / np.abs(n[inside])).mean() / 2 <= chance * 1.01


@pytest.mark.parametrize(("figures", "stddevs"), LAW)
def test_noise_has_the_spread_that_the_module_states(figures, stddevs):
    of = terms(figures)
    none = np.zeros(20_000, dtype=np.int64)
    drawn = noisy_cell_sums(
        none,
        none,
        np.zeros((len(of), none.size), dtype=np.int64),
        [term.last for term in of],
        forms=forms_of(of),
        epsilon=1,
        neighbours=Neighbours.ADD_REMOVE,
        noise=SeededNoise(3),
    )
    numbers = np.concatenate([drawn.rows[None], drawn.centred])
    assert numbers.std(axis=1) == pytest.approx(stddevs, rel=0.02)
    if figures == ("variance",):
        assert_shown_from_a_number_that_noise_seldom_exceeds(drawn)
    if forms_of(of):
        copies = noise_of_cells(drawn, forms_of(of), 20_000, SeededNoise(4))
        assert np.cov(copies.T) == pytest.approx(np.cov(numbers), abs=0.5)
        # the law that says from which number of rows a cell is shown is wider in its tail
        far = drawn.law.count_above(0.001)
        assert (drawn.rows > far).mean() <= 0.0018
