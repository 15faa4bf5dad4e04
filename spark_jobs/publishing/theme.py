"""Design tokens: one set of colours for plots and page, light and dark.

Hues follow Okabe and Ito's colour-blind safe palette (blue, orange, vermilion), moved in lightness until text reaches
a contrast of 4.5 and graphics of 3 on every surface. Tests check both, and that neighbouring colours stay
distinguishable under simulated colour blindness. No information is conveyed by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Token:
    """One colour, with its value on a light page and on a dark one, as ``#rrggbb``."""

    light: str
    dark: str


TOKENS: Mapping[str, Token] = {
    "paper": Token(light="#f7f6f2", dark="#12161c"),
    "surface": Token(light="#ffffff", dark="#1a2028"),
    "ink": Token(light="#1b2530", dark="#ebe9e4"),
    "muted": Token(light="#566270", dark="#a9b3be"),
    "hairline": Token(light="#dcdfe3", dark="#343d49"),
    "curve": Token(light="#0a5c9c", dark="#6cb8f0"),
    "chance": Token(light="#7d858f", dark="#87919d"),
    "before": Token(light="#5d7488", dark="#8299ad"),
    "spent": Token(light="#c65102", dark="#f0a050"),
    "left": Token(light="#e3ebf1", dark="#2a3440"),
    "alarm": Token(light="#b3001e", dark="#ff7a80"),
    "caution": Token(light="#7a4d00", dark="#f3c34d"),
}


def light(name: str) -> str:
    """The light value of a token, in which plot files are drawn on white."""
    return TOKENS[name].light


def css_variables() -> Mapping[str, Mapping[str, str]]:
    """The tokens by colour scheme, as variables of the page's style sheet."""
    return {
        "light": {name: token.light for name, token in TOKENS.items()},
        "dark": {name: token.dark for name, token in TOKENS.items()},
    }


def as_variables(svg: str) -> str:
    """``svg`` with each token's light value replaced by a reference to its CSS variable, so it follows the page."""
    for name, token in TOKENS.items():
        svg = svg.replace(token.light, f"var(--{name})")
    return svg
