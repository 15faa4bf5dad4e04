"""What is quoted of odds against the exact law of each mechanism's loss, in both directions."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import norm

from spark_jobs.contract.odds import FINE_STEPS, LossLaw, Odds, Spent, odds
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.mechanisms.continuous_noise import laplace_noise
from spark_jobs.mechanisms.moment_matrix import Layout
from spark_jobs.mechanisms.noise import gaussian_stddev
from spark_jobs.mechanisms.zcdp import epsilon_of, rho_within
from spark_jobs.statistics.lattice import LATTICE

BUDGETS = (("0.01", "0.01"), ("0.1", "0.001"), ("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("5", "1e-6"))


def quoted(law: LossLaw, epsilon: str, delta: str) -> tuple[float, float]:
    rho = None if law in (LossLaw.ANY, LossLaw.SMOOTH_LAPLACE) else rho_within(epsilon, delta)
    found = odds(Spent(epsilon=Decimal(epsilon), delta=Decimal(delta), rho=rho, law=law))
    return float(found.exponent), float(found.probability)


def passing(first: np.ndarray, second: np.ndarray, exponent: float) -> float:
    """The probability, under the first law, of outputs whose likelihood ratio is beyond the factor in any direction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(first) - np.log(second)
    return float(first[(first > 0) & (np.abs(losses) > exponent)].sum())


def discrete_gaussian(rho: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """The laws of a whole number with Gaussian noise of this rho, before and after a change by ``shift``."""
    stddev = gaussian_stddev(Decimal(rho), shift)
    reach = int(13 * stddev) + shift
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = [-((points - centre) ** 2) / (2 * stddev**2) for centre in (0.0, float(shift))]
    laws = [np.exp(weight) for weight in weights]
    total = laws[0].sum()
    return laws[0] / total, laws[1] / total


def gaussian_passing(rho: float, exponent: float, *, shift: int = FINE_STEPS) -> float:
    """The probability that the loss of a whole number with Gaussian noise is beyond the exponent, up or down.

    It adds up the law of the noise over all whole numbers where it is. Exchanging the two tables mirrors the law.
    """
    stddev = gaussian_stddev(Decimal(rho), shift)
    up, down = (shift / 2 - sign * stddev**2 * exponent / shift for sign in (1, -1))
    lowest = int(np.floor(np.nextafter(up, -np.inf)))
    highest = int(np.ceil(np.nextafter(down, np.inf)))
    mass = 0.0
    for start, sign in ((lowest, -1), (highest, 1)):
        points = start + sign * np.arange(0, int(5 * stddev), dtype=np.float64)
        mass += float(np.exp(-(points**2) / (2 * stddev**2)).sum())
    return mass / (stddev * math.sqrt(2 * math.pi))  # the sum over all whole numbers, up to e^(-2 pi^2 stddev^2)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_noise_keeps_what_is_quoted_and_not_the_old_sentence(epsilon: str, delta: str) -> None:
    exponent, probability = quoted(LossLaw.GAUSSIAN, epsilon, delta)
    rho = float(rho_within(epsilon, delta))
    assert gaussian_passing(rho, exponent) <= probability == float(delta)
    assert gaussian_passing(rho, exponent * 0.98) > probability, "a smaller factor would be false"
    old = {
        ("0.01", "0.01"): 69.3,
        ("0.1", "0.001"): 39.8,
        ("0.1", "1e-6"): 79.4,
        ("1", "1e-6"): 6.65,
        ("5", "1e-6"): 1.22,
    }
    times = gaussian_passing(rho, float(epsilon)) / float(delta)
    assert times == pytest.approx(old.get((epsilon, delta), 8.51), rel=0.05), "e^epsilon, except with delta, is false"


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_rows_that_change_less_keep_it_too(part: float) -> None:
    rho = float(rho_within("1", "1e-6"))
    exponent, probability = quoted(LossLaw.GAUSSIAN, "1", "1e-6")
    assert gaussian_passing(rho * part**2, exponent, shift=int(FINE_STEPS * part)) < probability


def test_fits_draw_gaussian_noise_on_a_fine_lattice() -> None:
    layout = Layout(steps=LATTICE, numbers=0, columns=(), outcome=False)
    assert min(layout.l2_sensitivity(relation) for relation in Neighbours) >= FINE_STEPS


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_steps_that_are_chosen_by_earlier_ones_keep_what_is_quoted(epsilon: str, delta: str) -> None:
    """Steps with Gaussian noise of which the worst row stops to be affected as soon as the loss is beyond the factor.

    That is the best adversary; its law is computed by convolutions of the loss of a step, and not by a formula.
    """
    rho, steps = float(rho_within(epsilon, delta)), 8
    exponent, probability = quoted(LossLaw.CONCENTRATED, epsilon, delta)
    assert _exit(rho, steps, exponent) <= probability == float(delta)
    single, _ = quoted(LossLaw.GAUSSIAN, epsilon, delta)
    assert _exit(rho, steps, single) > float(delta), "what holds of one vector is false of several steps"


def _exit(rho: float, steps: int, exponent: float) -> float:
    """The probability that the loss is beyond the exponent after one of these steps."""
    part, width = rho / steps, math.sqrt(2 * rho)
    mesh = width / 150
    losses = np.arange(-(exponent + 6 * width), exponent + 6 * width, mesh)
    reach = int((12 * math.sqrt(2 * part) + part) / mesh)
    kernel = norm.pdf(np.arange(-reach, reach + 1) * mesh, part, math.sqrt(2 * part)) * mesh
    law = np.zeros(losses.size)
    law[int(np.argmin(np.abs(losses)))] = 1.0
    beyond, out = np.abs(losses) > exponent, 0.0
    for _ in range(steps):
        law = np.convolve(law, kernel, mode="same")
        out += float(law[beyond].sum())
        law[beyond] = 0.0
    return out


def smooth_laws(
    epsilon: str, delta: str, *, bound: float, ratio: float, apart: float, centre: float
) -> list[np.ndarray]:
    """The laws of a number with smooth Laplace noise on a grid of [0, 1], for two neighbours."""
    shape = laplace_noise(epsilon, delta)
    scales = (shape.scale * bound, shape.scale * bound * math.exp(ratio * shape.rate))
    shift = apart * bound * min(1.0, math.exp(ratio * shape.rate))
    edges = np.concatenate([[-np.inf], (np.arange(1000) + 0.5) / 1000, [np.inf]])
    laws = []
    for middle, scale in ((centre, scales[0]), (centre + shift, scales[1])):
        away = (edges - middle) / scale
        below, above = (np.exp(-np.abs(np.where(np.isfinite(away), away, np.inf))) / 2 for _ in range(2))
        lower, upper = np.where(away < 0, below, 1 - below), np.where(away < 0, 1 - above, above)
        # from the nearer end, so that tails are not differences of numbers near 1
        laws.append(np.where(away[1:] <= 0, np.diff(lower), -np.diff(upper)))
    return laws


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-6"), ("1", "1e-6"), ("5", "1e-4"), ("10", "1e-6")])
def test_smooth_laplace_noise_keeps_what_is_quoted(epsilon: str, delta: str) -> None:
    exponent, probability = quoted(LossLaw.SMOOTH_LAPLACE, epsilon, delta)
    worst = {exponent: 0.0, float(epsilon): 0.0}
    spans = (-1.0, -0.5, 0.0, 0.5, 1.0)
    for ratio, apart, centre in itertools.product(spans, spans, (0.0, 0.2, 0.5, 0.77, 1.0)):
        for scale in (0.5, 0.1, 0.06, 0.03):
            bound = scale * float(epsilon) / 2
            laws = smooth_laws(epsilon, delta, bound=bound, ratio=ratio, apart=apart, centre=centre)
            for (first, second), limit in itertools.product((laws, laws[::-1]), worst):
                worst[limit] = max(worst[limit], passing(first, second, limit * (1 + 1e-9)))
    assert worst[exponent] <= probability == float(delta)
    assert worst[exponent] >= 0.05 * probability, "the worst neighbours are among those tried"
    if epsilon == "10":
        assert worst[float(epsilon)] > float(delta), "e^epsilon except with delta is false here"
        assert exponent < 10.5


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("above", [0.05, math.log(2) * 1.0001, 1.0, 3.0])
def test_any_mechanism_keeps_what_is_quoted(epsilon: str, delta: str, above: float) -> None:
    """The worst (epsilon, delta)-DP mechanism for a factor: all of delta in one outcome a little beyond epsilon."""
    exponent, probability = quoted(LossLaw.ANY, epsilon, delta)
    assert exponent == pytest.approx(float(epsilon) + math.log(2))
    assert probability == pytest.approx(3 * float(delta))
    loss, size = float(epsilon) + above, float(delta)
    often = size / (1 - math.exp(-above))
    once = often * math.exp(-loss)
    first, second = (np.array([p, q, 1 - p - q]) for p, q in ((often, once), (once, often)))
    for one, other in ((first, second), (second, first)):
        slip = np.maximum(one - math.exp(float(epsilon)) * other, 0.0).sum()
        assert slip == pytest.approx(size, rel=1e-6), "it is (epsilon, delta)-DP, and no less"
        assert passing(one, other, exponent) <= probability
    assert passing(first, second, float(epsilon)) > size, "e^epsilon except with delta is false"


def test_a_delta_of_finite_precision_hardly_changes_the_factor() -> None:
    found = odds(Spent(epsilon=Decimal(1), delta=Decimal("3e-30")))
    assert found == Odds(exponent=Decimal("1.000001"), probability=Decimal("9e-24"))


def test_charges_add_up_to_what_they_keep_together() -> None:
    """A pure answer, and a second one with Gaussian noise that only a likely first answer is followed by."""
    rho = float(rho_within("1", "1e-6"))
    gaussian = Spent(epsilon=Decimal(1), delta=Decimal("1e-6"), rho=rho_within("1", "1e-6"), law=LossLaw.GAUSSIAN)
    pure = Spent(epsilon=Decimal("0.5"))
    together = odds(pure, gaussian)
    assert together.exponent == odds(gaussian).exponent + Decimal("0.5")
    answer = np.array([math.exp(0.5), 1.0]) / (1 + math.exp(0.5))
    noise = discrete_gaussian(rho, FINE_STEPS)
    first, second = (np.outer(reply, law).ravel() for reply, law in zip((answer, answer[::-1]), noise, strict=True))
    assert passing(first, second, float(together.exponent)) <= float(together.probability)
    twice = odds(pure, gaussian, gaussian)
    assert twice.probability == Decimal("2e-6")
    assert passing(*discrete_gaussian(2 * rho, FINE_STEPS), float(twice.exponent)) <= 2e-6


@pytest.mark.parametrize(("rho", "delta"), [("0.001", "1e-6"), ("0.02", "1e-6"), ("0.5", "1e-9"), ("5", "1e-6")])
def test_a_cap_in_rho_is_quoted_at_the_delta_it_is_reported_at(rho: str, delta: str) -> None:
    cap = Budget(epsilon=epsilon_of(rho, delta), delta=delta, rho=rho)
    found = odds(Spent.of(cap))
    assert found.probability == Decimal(delta)
    usual = float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / float(delta)))
    assert usual < found.exponent < 1.03 * usual
    assert passing(*discrete_gaussian(float(rho), 1000), float(found.exponent)) <= float(delta)


def test_what_is_not_pure_is_never_taken_for_it() -> None:
    assert odds(Spent(epsilon=Decimal("0.7"))) == Odds(exponent=Decimal("0.7"), probability=Decimal(0))
    assert odds(Spent(epsilon=Decimal(1), delta=Decimal("0.6"))).probability == 1
    for law in set(LossLaw) - {LossLaw.ANY}:
        with pytest.raises(ValueError, match="delta"):
            odds(Spent(epsilon=Decimal(1), rho=Decimal("0.01"), law=law))
