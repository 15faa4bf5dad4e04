"""The marks that a release carries on its page and its plots: NOT PRIVATE and UNCHARGED."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spark_jobs.contract.published import Result

Guarantee = Literal["differentially private", "NOT PRIVATE"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One mark.

    Attributes:
        name: the text of the stamp.
        meaning: explanation for the banner.
        token: colour token.
        across: whether the mark is stamped across plots and page; otherwise it is noted beside them.
    """

    name: str
    meaning: str
    token: Literal["alarm", "caution"]
    across: bool


SEEDED = Mark(
    name=NOT_PRIVATE,
    meaning="The noise came from a seed, for tests and benchmarks: whoever knows the seed can remove the noise. "
    "Nothing here is protected.",
    token="alarm",  # noqa: S106 - a colour
    across=True,
)
DRAFT = Mark(
    name="UNCHARGED",
    meaning="A draft outside the ledger: no account paid for it, and its cost is not recorded. "
    "Every further draft on the same table reveals more about its rows.",
    token="caution",  # noqa: S106 - a colour
    across=False,
)


def guarantee(results: Iterable[Result]) -> Guarantee:
    """The guarantee of a release, which is private only if every result in it is."""
    kept = [result.guarantee == PRIVATE for result in results]
    return "differentially private" if kept and all(kept) else "NOT PRIVATE"


def marks(guarantee: str, status: str) -> tuple[Mark, ...]:
    """The marks of a release, the most severe first."""
    seeded = () if guarantee == PRIVATE else (SEEDED,)
    return seeded if status == "CHARGED" else (*seeded, DRAFT)


def stamp_figure(figure: Figure, marks: Iterable[Mark]) -> None:
    """Put the marks on a plot: across it if ``mark.across``, otherwise in its lower left corner."""
    width, height = figure.get_size_inches()
    for mark in marks:
        if mark.across:
            figure.text(
                0.52,
                0.5,
                mark.name,
                color=light(mark.token),
                alpha=0.6,
                size=min(width, height) * 10.5,
                weight="bold",
                ha="center",
                va="center",
                rotation=38,
                zorder=10,
            )
        else:
            figure.text(
                0.03, 0.012, f"{mark.name} draft", color=light(mark.token), size=8.5, weight="bold", va="bottom"
            )
