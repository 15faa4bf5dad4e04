"""Contrast after WCAG 2.2 (1.4.3, 1.4.11); colour blindness after Machado, Oliveira & Fernandes 2009, severity 1."""

from itertools import combinations

import numpy as np
import pytest

from spark_jobs.publishing.theme import TOKENS, as_variables, css_variables

BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
SCHEMES = ("light", "dark")


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    first, second = (float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def of(name: str, scheme: str) -> str:
    return css_variables()[scheme][name]


def test_the_measures_themselves():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01), "the known example just below 4.5"
    assert lab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("surface", ["paper", "surface"])
@pytest.mark.parametrize("text", ["ink", "muted", "curve", "alarm", "caution"])
def test_text_is_legible(scheme, surface, text):
    assert contrast(of(text, scheme), of(surface, scheme)) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("banner", ["alarm", "caution"])
def test_banners_are_legible(scheme, banner):
    assert contrast(of("paper", scheme), of(banner, scheme)) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("graphic", ["curve", "chance", "before", "spent"])
def test_graphics_stand_out(scheme, graphic):
    assert contrast(of(graphic, scheme), of("surface", scheme)) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("together", [("before", "spent", "left"), ("curve", "chance")])
def test_colours_used_together_stay_apart_for_everybody(scheme, blindness, together):
    seen = [lab(np.asarray(BLINDNESS[blindness]) @ linear(of(name, scheme))) for name in together]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) >= 20


def test_each_token_has_a_light_value_of_its_own():
    values = [token.light for token in TOKENS.values()]
    assert len(set(values) - {"#ffffff"}) == len(values) - 1, "or pictures could not be turned into variables"


def test_pictures_refer_to_variables():
    assert as_variables(f"stroke: {TOKENS['curve'].light}") == "stroke: var(--curve)"
