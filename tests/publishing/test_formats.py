from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.publishing import formats
from spark_jobs.wording import amounts

NBSP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (formats.percent(0.12345), f"12.3{NBSP}%"),
        (formats.percent(float("nan")), "–"),
        (formats.decimals(-0.0001), "0.000"),
        (formats.decimals(0.71249), "0.712"),
        (formats.count(14021.4), "14,021"),
        (amounts.equals("ε", Decimal("0.5")), "ε = 0.5"),
        (amounts.equals("ε", Decimal(2) / 3), f"ε ≈{NBSP}0.6667"),
        (formats.count(-3.2), "0"),
        (formats.count(float("inf")), "–"),
        (formats.level(0.999), f"99.9{NBSP}%"),
        (amounts.amount(Decimal("0.25")), "0.25"),
        (amounts.amount(Decimal(1) / 3), f"≈{NBSP}0.3333"),
        (amounts.amount(Decimal("1e-12")), f"≈{NBSP}1.000{NBSP}×{NBSP}10^-12"),
        (amounts.probability(Decimal("1e-6")), "10^-6"),
        (amounts.probability(Decimal("2.5e-7")), "2.5 × 10^-7"),
        (amounts.probability(Decimal("0.01")), "0.01"),
        (amounts.probability(Decimal(0)), "0"),
        (formats.moment("2026-11-21T01:20:34Z"), "21 November 2026, 01:20 UTC"),
        (formats.moment("2026-11-21T01:20:34+02:00"), "20 November 2026, 23:20 UTC"),
        (formats.moment("2026-11-21T01:20:34"), "21 November 2026, 01:20 UTC"),
        (formats.moment("soon"), "soon"),
        (formats.size(812), f"812{NBSP}B"),
        (formats.size(43_210), f"43{NBSP}kB"),
        (formats.size(2_400_000), f"2.4{NBSP}MB"),
    ],
)
def test_written_form(written, expected):
    assert written == expected


@given(st.lists(st.decimals(0, 1000, places=3), min_size=3, max_size=3))
def test_shares_of_a_bar_fill_it_and_no_more(parts):
    whole = sum(parts, Decimal(0))
    shares = [formats.share_of(part, whole) for part in parts]
    assert all(0 <= share <= 100 for share in shares)
    assert whole == 0 or abs(sum(shares, Decimal(0)) - 100) <= Decimal("0.02")


def test_share_of_nothing_is_nothing():
    assert formats.share_of(Decimal(1), Decimal(0)) == 0
    assert formats.share_of(Decimal(2), Decimal(1)) == 100
