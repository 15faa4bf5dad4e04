"""Draws that an earlier version stored are summarised by the rounding that they state, which is none.

The files were written before thresholds were rounded as values are: requests with draws (of noise from a seed) and what
that version summarised them as, but for long lists, and for areas of scores of one decimal in small groups, whose curve
is now bent between scores that many rows share.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.draft import draft, results_of
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.release import Release
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request

ROUNDED = ("threshold", "true_", "false_", "positives", "negatives", "quantile", "cdf", ".bounds", ".values")
"""What thresholds and values are, and counts at them; the rest is estimated or simulated."""
FILES = sorted((Path(__file__).parent / "earlier_draws").glob("*.json"))


def stored(path: Path) -> tuple[Any, ReleaseDraw, dict[str, Any]]:
    document = json.loads(path.read_text())
    made = request(**document["request"])
    draw = document["draw"]
    opened = ReleaseDraw.from_json(json.dumps(draw).encode(), charge_id="earlier", request_sha256=made.sha256)
    return made, opened, document["results"]


def assert_alike(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_alike(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_alike(one, other, f"{where}[{place}]")
    elif isinstance(expected, float) and isinstance(found, float):
        # estimates and simulations end when a version sees fit; another rounding moves thresholds by 10^-5, and counts
        # by whole rows
        near = 5e-6 if any(part in where for part in ROUNDED) else 1e-2
        assert np.isclose(found, expected, rtol=near, atol=near), f"{where}: {found}, {expected}"
    else:
        assert found == expected, where


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stored_draw_is_summarised_as_before(path: Path) -> None:
    made, draw, expected = stored(path)
    assert draw.rounding == EARLIEST_ROUNDING
    results, _ = results_of(made, draw)
    assert_alike({kind: result.to_dict() for kind, result in results.items()}, expected, "")


def test_a_draft_states_the_rounding_of_its_draw() -> None:
    made, draw, _ = stored(next(path for path in FILES if path.stem == "alone"))
    release, _ = draft(made, draw, key="visits/1", rules=rules(made))
    assert release.rounding == EARLIEST_ROUNDING
    assert any("65,536 cells" in rule for rule in release.rules)
    fields = json.loads(release.to_bytes())
    del fields["rounding"]  # as in a manifest of that version
    assert Release.parse(fields).rounding == EARLIEST_ROUNDING
