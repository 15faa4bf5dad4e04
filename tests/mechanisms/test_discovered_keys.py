"""Keys that are not public: the threshold, by exact sums over the lattice, and which keys pass it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, norm

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import GroupBound, Neighbours, share
from spark_jobs.mechanisms import cell_gaussian, cell_sums, discovered_keys
from spark_jobs.mechanisms.discovered_keys import counted, key_threshold, noisy_keys, tail_of_rows
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.noises import Recording

ADDED, REPLACED = Neighbours


@dataclass(frozen=True)
class Batch:
    keys: list[str]
    rows: np.ndarray
    incomplete: np.ndarray
    sums: np.ndarray


def batch_of(rows, *, measures=0, first=0):
    rows = np.array(rows, dtype=np.int64)
    keys = [f"k{first + place:06}" for place in range(rows.size)]
    return Batch(keys, rows, np.zeros_like(rows), np.repeat((3 * rows)[None], measures, axis=0))


def release(batches, *, steps=(), epsilon="1", delta="1e-6", min_units=1, neighbours=ADDED, max_keys=10**5, noise=None):
    noise = noise or SeededNoise(1)
    terms = {"epsilon": epsilon, "delta": Decimal(delta), "neighbours": neighbours, "noise": noise}
    return noisy_keys(batches, list(steps), min_units=min_units, max_keys=max_keys, **terms)


def of_units(keys, *, measures=0, method="auto", epsilon=1, delta="1e-6", neighbours=ADDED, noise=None):
    """A release of no key, of units of so many keys."""
    return noisy_keys(
        [], [128] * measures, min_units=1, max_keys=9, epsilon=share(Decimal(epsilon), keys), delta=Decimal(delta),
        neighbours=neighbours, noise=noise or SeededNoise(1), bound=GroupBound(keys, 1), method=method,
    )  # fmt: skip


def drawn(steps, epsilon="1", neighbours=ADDED):
    none = np.zeros(0, dtype=np.int64)
    empty = np.zeros((len(steps), 0), dtype=np.int64)
    terms = {"epsilon": epsilon, "neighbours": neighbours, "noise": SecureNoise()}
    return cell_sums.noisy_cell_sums(none, none, empty, list(steps), **terms)


@pytest.mark.parametrize(
    ("numbers", "epsilon", "delta", "threshold"),
    [
        (1, 1, "1e-6", 14), (2, 1, "1e-6", 16.3), (3, 1, "1e-6", 18.3), (4, 1, "1e-6", 20.1), (6, 1, "1e-6", 23.6),
        (2, 0.5, "1e-6", 31.6), (2, 3, "1e-6", 6.1), (2, 1, "1e-9", 23.5),
    ],
)  # fmt: skip
def test_a_key_is_released_half_of_the_time_from_so_many_units(numbers, epsilon, delta, threshold):
    """With one value of each unit; halves of 128 lattice steps."""
    released = release([], steps=[128] * (numbers - 1), epsilon=epsilon, delta=delta)
    assert released.discovered.threshold == pytest.approx(threshold, abs=0.06)
    assert released.discovered.keys == ()


@pytest.mark.parametrize(("keys", "threshold"), [(1, 24), (5, 55), (10, 80), (20, 115), (50, 186)])
def test_with_gaussian_noise_a_key_is_released_half_of_the_time_from_so_many_units(keys, threshold):
    """At an epsilon of 1 and a delta of 1e-6, of a unit in so many keys."""
    released = of_units(keys, method="gaussian")
    assert released.discovered.threshold == pytest.approx(threshold, abs=0.7)
    rho = float(released.cells.rho)
    chance = 1 - (1 - 5e-7) ** (1 / keys)
    assert released.discovered.threshold == pytest.approx(1 + norm.isf(chance) / math.sqrt(2 * rho), rel=1e-4)


def test_a_unit_of_several_keys_has_all_of_delta():
    """With noise that is drawn together: at the threshold, the k-th part of delta for each key."""
    released = of_units(4, method="k_norm")
    beyond, tail = released.discovered.threshold - 1, tail_of_rows(released.cells)
    assert 1 - (1 - tail(round(beyond) + 1)) ** 4 <= 1e-6 < 1 - (1 - tail(round(beyond))) ** 4


@pytest.mark.parametrize(
    ("neighbours", "measures", "first"),
    [(ADDED, 0, 6), (ADDED, 1, 7), (ADDED, 2, 7), (REPLACED, 0, 3), (REPLACED, 1, 4), (REPLACED, 2, 5)],
)
def test_noise_is_gaussian_from_so_many_keys_of_a_unit_on(neighbours, measures, first):
    """By the product of the threshold and the standard deviation, which neither kind lowers on its own alone."""
    for keys in (1, first - 1, first, 4 * first):
        product, gaussian = {}, {}
        for method in ("k_norm", "gaussian", "auto"):
            released = of_units(keys, measures=measures, method=method, neighbours=neighbours)
            product[method] = released.discovered.threshold * released.cells.law.stddev(1, 0)
            gaussian[method] = released.cells.rho is not None
        assert gaussian == {"k_norm": False, "gaussian": True, "auto": keys >= first}
        assert product["auto"] == min(product.values())


@pytest.mark.parametrize("unit", [1, 8])
@pytest.mark.parametrize("rho", ["0.5", "0.003"])
def test_the_tail_of_gaussian_noise_is_the_sum_over_the_lattice(monkeypatch, unit, rho):
    for module in (cell_sums, cell_gaussian, discovered_keys):
        monkeypatch.setattr(module, "UNIT", unit)
    none = np.zeros(0, dtype=np.int64)
    terms = {"epsilon": Decimal(1), "neighbours": ADDED, "noise": SeededNoise(1)}
    cells = cell_gaussian.gaussian_cell_sums(
        none, none, np.zeros((1, 0), dtype=np.int64), [4], rho=Decimal(rho), **terms
    )
    tail, stddev = tail_of_rows(cells), unit * math.sqrt(2 / (2 * float(rho)))
    reach = np.arange(-int(60 * stddev), int(60 * stddev) + 1)
    law = np.exp(-((reach / stddev) ** 2) / 2)
    for k in (0, 1, 3, round(3 * stddev), round(6 * stddev)):
        exact = law[reach >= k].sum() / law.sum()
        assert exact <= tail(k) <= exact * (1 + 1e-6)


def test_the_tail_of_gaussian_noise_on_a_fine_lattice_is_the_normal_one_and_never_below():
    cells = of_units(3, method="gaussian").cells
    tail, stddev = tail_of_rows(cells), cells.law.stddev(1, 0)
    for deviations in (0.1, 2, 5, 12):
        exact = norm.sf(deviations)
        assert exact <= tail(round(deviations * stddev * cell_sums.UNIT)) <= exact * (1 + 1e-2)


@pytest.mark.parametrize("epsilon", ["0.3", "2"])
@pytest.mark.parametrize("neighbours", [ADDED, REPLACED])
def test_tails_are_the_sums_over_the_lattice(epsilon, neighbours):
    cost = float(epsilon) / (2 if neighbours is REPLACED else 1)
    for steps in ((), (4,)):
        tail, scale = tail_of_rows(drawn(steps, epsilon, neighbours)), max(sum(steps), 1) / cost
        reach = np.arange(-int(60 * scale), int(60 * scale) + 1)
        law = np.exp(-np.abs(reach) / scale)
        law /= law.sum()
        law = law if not steps else np.convolve(law, law)
        sums = np.arange(law.size) - law.size // 2
        for k in (0, 1, 2, 7, 12):
            exact = law[sums >= k].sum()
            assert exact <= tail(k) <= exact * (1 + 1e-6)


@pytest.mark.parametrize("measures", [2, 3])
def test_the_tail_in_a_cube_is_that_of_its_radius_and_never_below(monkeypatch, measures):
    """On a coarse lattice by summing all radii, on the fine one by the integral over the gamma law."""
    fine, numbers = tail_of_rows(drawn([8] * measures)), measures + 1
    for x in (0.5, 5.0, 20.0):
        exact, _ = quad(lambda r, x=x: 0.5 * (1 - x / r) * gamma.pdf(r, numbers + 1), x, np.inf, epsabs=1e-18)
        assert exact <= fine(round(x * cell_sums.UNIT)) <= 1.02 * exact
    monkeypatch.setattr(cell_sums, "UNIT", 8)
    monkeypatch.setattr(discovered_keys, "UNIT", 8)
    coarse, scale = tail_of_rows(drawn([8] * measures)), 8.0
    radii = np.arange(3000)
    weights = np.exp(-radii / scale) * (2.0 * radii + 1) ** numbers
    for k in (1, 3, 30, 90):
        exact = (weights * np.maximum(radii - k + 1, 0) / (2 * radii + 1)).sum() / weights.sum()
        assert exact <= coarse(k) <= exact * (1 + 1e-4)


@pytest.mark.parametrize("steps", [(), (4,), (4, 4)])
def test_the_threshold_is_the_least_that_delta_allows(steps):
    for delta in ("1e-3", "1e-9"):
        cells = drawn(steps)
        limit, tail = key_threshold(cells, min_units=3, delta=Decimal(delta)), tail_of_rows(cells)
        beyond = limit - 3 * discovered_keys.steps_of_row(cells)
        assert tail(beyond + 1) <= float(delta) < tail(beyond)


def test_only_keys_of_enough_units_and_above_the_threshold_are_released():
    rows = [0, 1, 19, 20, 33, 34, 35, 36, 500]
    for seed in range(50):
        released = release([batch_of(rows, measures=1)], steps=[10], min_units=20, noise=SeededNoise(seed))
        places = [int(key[1:]) for key in released.discovered.keys]
        assert set(places).isdisjoint({0, 1, 2})
        assert 8 in places
        assert (counted(released.cells) > 10 * released.discovered.threshold).all()
    assert released.discovered.threshold > 20 + 14


@pytest.mark.parametrize("measures", [0, 1, 2])
def test_gaussian_numbers_are_those_of_the_keys(measures):
    batches = [batch_of([900, 40, 700], measures=measures), batch_of([800], measures=measures, first=3)]
    terms = {"epsilon": Decimal(10) ** 6, "delta": Decimal("1e-9"), "neighbours": ADDED, "noise": SeededNoise(1)}
    released = noisy_keys(
        batches, [10] * measures, min_units=50, max_keys=99, bound=GroupBound(3, 1), method="gaussian", **terms
    )
    assert released.discovered.keys == ("k000000", "k000002", "k000003")
    assert released.cells.rows == pytest.approx([900, 700, 800], abs=0.1)
    assert (counted(released.cells) > discovered_keys.UNIT * released.discovered.threshold).all()
    for centred in released.cells.centred[:measures]:
        assert centred == pytest.approx(np.array([900, 700, 800]) * (2 * 3 / 10 - 1), abs=0.1)


@pytest.mark.parametrize("steps", [(), (10,), (10, 10)])
def test_without_noise_every_key_of_enough_units_has_its_numbers(steps):
    batches = [batch_of([5, 1, 7], measures=len(steps)), batch_of([9, 2], measures=len(steps), first=3)]
    released = release(batches, steps=steps, epsilon=10**8, delta="1e-9", min_units=2)
    assert released.discovered.keys == ("k000000", "k000002", "k000003")
    assert released.cells.rows == pytest.approx([5, 7, 9], abs=1e-5)
    for centred in released.cells.centred[: len(steps)]:
        assert centred == pytest.approx(np.array([5, 7, 9]) * (2 * 3 / 10 - 1), abs=1e-5)


def test_batches_are_read_one_at_a_time_and_the_largest_keys_kept():
    held = []

    def batches():
        for place in range(5):
            held.append(place)
            yield batch_of(100 * np.arange(1, 31) + 1000 * place, first=30 * place)

    released = release(batches(), epsilon=100, max_keys=7)
    assert held == list(range(5))
    assert len(released.discovered.keys) == released.cells.rows.size == 7
    assert set(released.discovered.keys) == {f"k{place:06}" for place in range(143, 150)}
    assert list(released.discovered.keys) == sorted(released.discovered.keys)


def test_what_is_drawn_first_does_not_say_whether_there_are_keys():
    """A committer sees the largest loss of a call: the same for a table without any key."""
    asked = []
    for batches in ([], [batch_of([100, 3], measures=1)]):
        noise = Recording()
        release(batches, steps=[10], noise=noise)
        asked.append(noise.asked[:2])
    for none, some in zip(*asked, strict=True):
        assert (none.values.size, some.values.size) == (0, 0)
        assert (none.epsilon, none.l1_sensitivity) == (some.epsilon, some.l1_sensitivity)


@pytest.mark.parametrize("delta", ["0", "0.7", "1"])
def test_a_delta_that_the_proof_does_not_cover_is_refused_before_a_batch_is_read(delta):
    with pytest.raises(InvalidRequest, match="delta: .* must be above 0, and small beside epsilon"):
        release(iter([None]), delta=delta)
    assert -math.log1p(-0.6) < 1
    release([], delta="0.6")
