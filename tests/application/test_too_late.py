"""A refusal gives a charge back and says why, so there is none once noise has been drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application import run
from spark_jobs.application.main import main
from spark_jobs.application.run import measure
from spark_jobs.application.too_late import RefusedTooLateError, WatchedNoise, no_refusal_after
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.layout import ExitCode, ReleaseLayout
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import auc, roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from tests.application.test_draw import counts, request
from tests.application.test_main import REQUEST, private, said

__all__ = ["private"]
BOTH = {"diagnostics": ["auc", "roc_curve"]}


def refuse(*_: Any, **__: Any) -> None:
    raise RequestRefused("thresholds", given=17, bound="must be fewer", remedy="ask for fewer")


def draw_and_refuse(*_: Any, noise: Any, **__: Any) -> None:
    noise.laplace(np.zeros(1, dtype=np.int64), epsilon=1, l1_sensitivity=1)
    refuse()


@pytest.mark.parametrize(
    ("module", "measured", "error"),
    [
        (auc, refuse, RequestRefused),  # the first part of the budget, before its noise
        (auc, draw_and_refuse, RefusedTooLateError),
        (roc_curve, refuse, RefusedTooLateError),  # the second one, after the noise of the first
    ],
)
def test_only_what_comes_before_all_noise_can_be_refused(
    monkeypatch: pytest.MonkeyPatch, module: Any, measured: Any, error: type[Exception]
) -> None:
    monkeypatch.setattr(module, "measure", measured)
    with pytest.raises(error):
        measure(request(**BOTH), counts(), charge_id="c", noise=SeededNoise(1))


@pytest.mark.parametrize("draw", ["laplace", "gaussian", "words"])
def test_every_kind_of_noise_is_noticed(draw: str) -> None:
    noise = WatchedNoise(SeededNoise(1))
    assert (noise.drawn, noise.guarantee, noise.private) == (False, SeededNoise.guarantee, SeededNoise.private)
    zeros = np.zeros(3, dtype=np.int64)
    drawn = {
        "laplace": lambda source: source.laplace(zeros, epsilon=1, l1_sensitivity=1),
        "gaussian": lambda source: source.gaussian(zeros, rho=1, l2_sensitivity=1.0),
        "words": lambda source: source.words(3),
    }[draw]
    assert drawn(noise).tolist() == drawn(SeededNoise(1)).tolist()
    assert noise.drawn


def test_a_mechanism_that_refuses_its_arguments_has_drawn_nothing() -> None:
    noise = WatchedNoise(SeededNoise(1))
    with pytest.raises(RequestRefused), no_refusal_after(noise):
        noise.laplace(np.zeros(3, dtype=np.int64), epsilon=-1, l1_sensitivity=1)


@pytest.mark.parametrize("late", ["second part", "results"])
def test_a_late_refusal_fails_in_private_and_leaves_no_word_of_it(
    private: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """The caller would give the charge back for a refusal: there must be none in the store, nor in what is said."""
    asked = {**REQUEST, **BOTH}

    def make_draw(made: Any, *, charge_id: str, noise: Any, **_: Any) -> Any:
        return measure(made, counts(), charge_id=charge_id, noise=noise)

    monkeypatch.setattr(run, "make_draw", make_draw)
    if late == "results":
        monkeypatch.setattr(run, "draft", refuse)
    else:
        monkeypatch.setattr(roc_curve, "measure", refuse)
    (private / "request.json").write_text(json.dumps(asked))
    arguments = [str(private / "request.json"), "--output", str(private / "out"), "--charge", "c", "--key", "k"]
    assert main(arguments) == ExitCode.FAILED
    assert not Path(ReleaseLayout.of(str(private / "out"), "k", "c").refusal).exists()
    assert not any("thresholds" in line for line in said())


def test_a_stored_draw_that_cannot_be_read_is_no_refusal(private: Path) -> None:
    """Noise was drawn and stored: whatever is wrong with it, the charge must not come back."""
    asked = {**REQUEST, **BOTH}
    layout = ReleaseLayout.of(str(private / "out"), "k", "c")
    drawn = measure(ReleaseRequest.build(asked), counts(), charge_id="c", noise=SeededNoise(1)).to_json()
    stored = {**json.loads(drawn), "cost": {"epsilon": "-1"}}
    Path(layout.draw).parent.mkdir(parents=True)
    Path(layout.draw).write_text(json.dumps(stored))
    (private / "request.json").write_text(json.dumps(asked))
    arguments = [str(private / "request.json"), "--output", str(private / "out"), "--charge", "c", "--key", "k"]
    assert main(arguments) == ExitCode.FAILED
    assert not Path(layout.refusal).exists()
