from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.mechanisms import k_norm
from spark_jobs.mechanisms.k_norm import Body, _kept, _kept_exactly, _uniform, drawn
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, k_norm_scale
from tests.support.noises import Scripted, distance, radii

SOURCES = pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(7)], ids=lambda noise: type(noise).__name__)
BODIES = {
    "a box": Body(unit=3, widths=(1, 2)),
    "a hexagon": Body(unit=4, widths=(1, 2), forms=((1, 1),), bounds=(2,)),
    "three numbers": Body(unit=2, widths=(1, 1, 1), forms=((1, 1, -1), (2, -1, 0)), bounds=(2, 2)),
}
EVERY_BODY = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)


def around(body, reach):
    """All vectors of whole numbers within this reach."""
    return np.array(list(product(*(range(-reach * width, reach * width + 1) for width in body.widths))))


@pytest.mark.sampled
@SOURCES
@EVERY_BODY
def test_noise_has_its_law(source, body):
    epsilon, count = 1.0, 40_000
    vectors = around(body, 60 // len(body.widths))
    weights = np.exp(-radii(body, vectors).astype(float) / k_norm_scale(epsilon, body))
    law = weights / weights.sum()
    often = law * count > 8
    found = source.k_norm(np.zeros((count, len(body.widths)), dtype=np.int64), epsilon=epsilon, body=body)
    kinds, counts = np.unique(found, axis=0, return_counts=True)
    seen = dict(zip(map(tuple, kinds.tolist()), counts.tolist(), strict=True))
    observed = np.array([seen.get(tuple(vector), 0) for vector in vectors[often].tolist()])
    expected = law[often] * count
    rest = count - observed.sum(), count - expected.sum()
    chi = ((observed - expected) ** 2 / expected).sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1.0)
    assert stats.chi2.sf(chi, often.sum()) > 1e-6


@EVERY_BODY
def test_no_change_within_the_body_moves_a_radius_by_more_than_the_unit(body):
    vectors, changes = around(body, 4), around(body, body.unit)
    changes = changes[[distance(body, change) <= 1 for change in changes.tolist()]]
    apart = max(int(abs(radii(body, vectors + change) - radii(body, vectors)).max()) for change in changes)
    assert apart == body.unit
    # one step further would cost more
    beyond = np.array([body.widths[0] * body.unit + 1, *[0] * (len(body.widths) - 1)])
    assert distance(body, beyond) > 1
    assert abs(radii(body, vectors + beyond) - radii(body, vectors)).max() > body.unit


def test_a_distance_is_the_share_of_the_body_that_a_change_reaches():
    body = BODIES["a hexagon"]
    assert distance(body, [0, 0]) == 0
    assert distance(body, [4, 0]) == 1
    assert distance(body, [4, 4]) == 1
    assert distance(body, [4, 8]) == Fraction(12, 8)
    assert distance(body, [-2, 0]) == Fraction(1, 2)


@given(
    radius=st.integers(0, 2**50),
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=8).map(tuple),
    near=st.integers(-2, 2),
)
@settings(deadline=None)
def test_a_radius_is_kept_with_exactly_its_probability(radius, widths, near):
    share = Fraction(1)
    for place, width in enumerate(widths, start=1):
        share *= Fraction(2 * width * radius + 1, 2 * width * (radius + place))
    # the word whose interval holds the share is undecided; all below are kept, and none above
    undecided = int(share * 2**64)
    word = undecided + near
    if not 0 <= word < 2**64:
        return
    if near:
        assert _kept_exactly(radius, word, widths, Scripted([]).words) == (near < 0)
    elif share * 2**64 != undecided:
        assert not _kept_exactly(radius, word, widths, Scripted([2**64 - 1] * 8).words)
        assert _kept_exactly(radius, word, widths, Scripted([0] * 8).words)


@pytest.mark.parametrize("reach", [0, 1, 2, 3, 7, 8])
def test_whole_numbers_are_uniform(reach):
    count = 20_000
    found = _uniform(np.full((count, 1), reach), SeededNoise(3).words)
    places, counts = np.unique(found, return_counts=True)
    assert places.tolist() == list(range(-reach, reach + 1))
    assert stats.chisquare(counts).pvalue > 1e-6 if reach else counts.tolist() == [count]


def test_whole_numbers_are_uniform_up_to_the_largest():
    reach = np.array([[2**61, 2**40, 0]] * 2000)
    found = _uniform(reach, SeededNoise(4).words)
    assert (np.abs(found) <= reach).all()
    assert np.abs(found[:, 0] / 2.0**61).mean() == pytest.approx(0.5, abs=0.03)
    assert np.abs(found[:, 1] / 2.0**40).mean() == pytest.approx(0.5, abs=0.03)


def test_forms_of_large_numbers_do_not_overflow():
    body = Body(unit=1 << 50, widths=(1, 1), forms=((1000, 1000),), bounds=(1000,))
    far = np.array([[2**58, 2**58], [2**58, -(2**58)]])
    assert body.contains(far, np.array([2**58, 2**58])).tolist() == [False, True]


@SOURCES
def test_vectors_of_any_shape_get_noise_of_their_own(source):
    values = np.arange(2 * 3 * 2).reshape(2, 3, 2) * 10**9
    noisy = source.k_norm(values, epsilon="0.5", body=BODIES["a hexagon"])
    assert noisy.shape == values.shape
    apart = noisy - values
    assert 0 < np.abs(apart).max() < 10**6
    assert len(np.unique(apart.reshape(-1, 2), axis=0)) > 3
    assert source.k_norm(values[:0], epsilon=1, body=BODIES["a hexagon"]).shape == (0, 3, 2)


@SOURCES
def test_a_large_epsilon_leaves_a_few_steps(source):
    body = Body(unit=1 << 20, widths=(1,) * 12)
    found = source.k_norm(np.zeros((50, 12), dtype=np.int64), epsilon="1e12", body=body)
    assert 1 < np.abs(found).max() < 1000
    assert k_norm_scale("1e12", body) == pytest.approx(13, rel=1e-9)


def test_what_does_not_fit_is_refused():
    for options in ({"widths": (0, 1)}, {"unit": 0}, {"forms": ((1,),), "bounds": (1,)}, {"forms": ((1, 1),)}):
        with pytest.raises(ValueError, match="unit, widths, bounds|forms"):
            Body(**{"unit": 4, "widths": (1, 1)} | options)
    body, nothing = BODIES["a box"], np.zeros((1, 2), dtype=np.int64)
    for cost in (0, -1, "nan"):
        with pytest.raises(InvalidRequest, match="epsilon"):
            SecureNoise().k_norm(nothing, epsilon=cost, body=body)
    tiny = body.smallest_epsilon * Decimal("0.99")
    for draw in (SecureNoise().k_norm, SeededNoise(1).k_norm):
        with pytest.raises(InvalidRequest, match="epsilon: got .* for the noise of k_norm"):
            draw(nothing, epsilon=tiny, body=replace(body, unit=1 << 40))
    with pytest.raises(TypeError, match="integers"):
        SecureNoise().k_norm(nothing / 2, epsilon=1, body=body)


def test_doubles_decide_as_fractions_do_where_they_may(monkeypatch):
    widths, radii_ = (1, 2, 1, 3), np.arange(2000) * 7 % 1500
    quick = _kept(radii_, widths, SeededNoise(5).words)
    monkeypatch.setattr(k_norm, "_DOUBT", 2.0)
    assert _kept(radii_, widths, SeededNoise(5).words).tolist() == quick.tolist()
    assert 0.5 < quick.mean() < 1


@given(epsilon=st.integers(1, 10**6), change=st.lists(st.integers(-(2**50), 2**50), min_size=2, max_size=2))
def test_a_body_in_longer_steps_holds_what_it_held(epsilon, change):
    body = Body(unit=1 << 50, widths=(1, 2), forms=((1, 1),), bounds=(2,))
    longer, factor = body.within(body.smallest_epsilon * epsilon)
    assert distance(longer, change) <= distance(body, change)
    assert distance(longer, change) >= distance(body, change) * (1 - Fraction(2, k_norm.COARSEST))
    assert (longer == body) == (factor == 1)
    assert longer.unit >= k_norm.COARSEST


@SOURCES
def test_noise_beyond_64_bits_is_clipped_with_what_it_is_added_to(source):
    """Clipped by itself it would disclose a value below 0: the largest number less that value."""
    body = Body(unit=1 << 50, widths=(1, 1))
    epsilon = body.smallest_epsilon * 2
    found = np.concatenate([source.k_norm(np.full((200, 2), value), epsilon=epsilon, body=body) for value in (-5, 7)])
    ends = np.iinfo(np.int64)
    assert (found == ends.max).any()
    assert (found == ends.min).any()
    assert not np.isin(found, [ends.max - 5, ends.min + 7, ends.min + 8]).any()
    assert k_norm_scale(epsilon, body) > 2.0**60


def test_whole_numbers_beyond_64_bits_are_clipped_with_their_noise():
    values = np.array([[2**70, -(2**70)], [2**63 - 1, 0]], dtype=object)
    found = SeededNoise(1).k_norm(values, epsilon=1, body=BODIES["a box"])
    ends = np.iinfo(np.int64)
    assert found[0].tolist() == [ends.max, ends.min]
    assert ends.max - 100 < found[1, 0] <= ends.max


def test_a_draw_that_leaves_the_body_is_made_anew_with_its_radius():
    body, count = Body(unit=8, widths=(1, 1), forms=((1, 1), (1, -1)), bounds=(1, 1)), 60_000
    source = SeededNoise(9)
    scale = k_norm_scale(1.0, body)

    def geometric(size):
        return source._geometric(scale, (size,)).astype(np.int64)

    found = drawn(body, count, geometric=geometric, words=source.words)
    sizes = np.abs(found).sum(axis=1)  # of this body, the radius is the 1-norm, with 4 R points at radius R
    radius = np.arange(400)
    law = np.where(radius, 4 * radius, 1) * np.exp(-radius / scale)
    law /= law.sum()
    assert sizes.mean() == pytest.approx((law * radius).sum(), rel=0.01)
