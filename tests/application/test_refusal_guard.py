"""A refusal gives a charge back and says why, so there is none once a row was read for the charge."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application import run
from spark_jobs.application.main import main
from spark_jobs.application.refusal_guard import RecordingNoise, RefusedTooLateError, forbid_refusal
from spark_jobs.application.run import measure
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import ApplicationStage, ExitCode, ReleaseLayout
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE, Seal
from spark_jobs.diagnostics import auc, roc_curve
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.application.test_draw import BOUND, counts, request
from tests.application.test_main import REQUEST, private, said
from tests.support.kinds import EXAMPLES, tables
from tests.support.publications import account

__all__ = ["private"]
CHARGED = {**REQUEST, "table": {**REQUEST["table"], **BOUND}}
BOTH = {"diagnostics": [{"kind": "auc", "share": False}, "roc_curve"]}


def seal_of(changes: dict[str, Any] | None = None) -> Seal:
    asked = ReleaseRequest.parse({**CHARGED, **(changes or {})})
    return Seal(secret=bytes(range(32)), charge_id="c", request_sha256=asked.sha256)


def charged_run(private: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any] | None = None) -> ReleaseLayout:
    """What the committer leaves for a run: a request, figures and a secret."""
    layout, seal = ReleaseLayout.of(str(private / "out"), "k", "c"), seal_of(changes)
    (private / "request.json").write_text(json.dumps({**CHARGED, **(changes or {})}))
    LocalStore().create(layout.account, account().sealed(seal))
    monkeypatch.setenv(RUN_SECRET_VARIABLE, seal.secret.hex())
    return layout


def arguments_of(private: Path, changes: dict[str, Any] | None = None) -> list[str]:
    named = {"output": private / "out", "charge": "c", "key": "k", "run": 1}
    hashed = seal_of(changes).request_sha256
    return [
        str(private / "request.json"), f"--request-sha256={hashed}",
        *(f"--{name}={value}" for name, value in named.items()),
    ]  # fmt: skip


def refuse(*_: Any, **__: Any) -> None:
    raise InvalidRequest("thresholds", 17, "must be fewer", "ask for fewer")


def draw_and_refuse(statistic: Any, options: Any, terms: Terms) -> None:
    terms.noise.laplace(np.zeros(1, dtype=np.int64), epsilon=1, l1_sensitivity=1)
    refuse()


def measure_by(monkeypatch: pytest.MonkeyPatch, module: Any, measured: Any) -> None:
    kind = module.DIAGNOSTIC
    monkeypatch.setattr(module, "DIAGNOSTIC", replace(kind, measurement=replace(kind.measurement, measure=measured)))


@pytest.mark.parametrize(
    ("module", "measured", "error"),
    [
        (auc, refuse, InvalidRequest),  # the first part of the budget, before its noise
        (auc, draw_and_refuse, RefusedTooLateError),
        (roc_curve, refuse, RefusedTooLateError),  # the second one, after the noise of the first
    ],
)
def test_only_what_comes_before_all_noise_can_be_refused(
    monkeypatch: pytest.MonkeyPatch, module: Any, measured: Any, error: type[Exception]
) -> None:
    measure_by(monkeypatch, module, measured)
    with pytest.raises(error):
        measure(request(**BOTH), counts(), charge_id="c", noise=SeededNoise(1))


@pytest.mark.parametrize("draw", ["laplace", "gaussian", "words"])
def test_every_kind_of_noise_is_noticed(draw: str) -> None:
    noise = RecordingNoise(SeededNoise(1))
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
    noise = RecordingNoise(SeededNoise(1))
    with pytest.raises(InvalidRequest), forbid_refusal(noise):
        noise.laplace(np.zeros(3, dtype=np.int64), epsilon=-1, l1_sensitivity=1)


@pytest.mark.parametrize("late", ["first part", "second part", "results"])
def test_a_late_refusal_fails_in_private_and_leaves_no_word_of_it(
    private: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """The caller would give the charge back for a refusal: there must be none in the store, nor in what is said."""

    def make_draw(made: Any, *, charge_id: str, noise: Any, announcer: Any, **_: Any) -> Any:
        announcer.stage(ApplicationStage.COUNTING)
        return measure(made, counts(), charge_id=charge_id, noise=noise)

    monkeypatch.setattr(run, "make_draw", make_draw)
    if late == "results":
        monkeypatch.setattr(run, "draft", refuse)
    else:
        measure_by(monkeypatch, auc if late == "first part" else roc_curve, refuse)
    layout = charged_run(private, monkeypatch, BOTH)
    assert main(arguments_of(private, BOTH)) == ExitCode.FAILED
    assert not Path(layout.statement(1)).exists()
    assert not any("thresholds" in line for line in said())


@pytest.mark.parametrize("refused", [True, False])
def test_a_run_that_ends_before_it_reads_a_row_states_so_and_why(
    private: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    def make_draw(*_: Any, announcer: Any, **__: Any) -> Any:
        announcer.stage(ApplicationStage.READING)
        if refused:
            refuse()
        raise OSError("no Spark")

    monkeypatch.setattr(run, "make_draw", make_draw)
    layout = charged_run(private, monkeypatch)
    assert main(arguments_of(private)) == (ExitCode.REFUSED if refused else ExitCode.FAILED)
    sealed = Path(layout.statement(1)).read_bytes()
    assert b"thresholds" not in sealed
    statement = NothingRead.from_json(seal_of().open("run-1.json", sealed), run=1)
    assert (None if statement.refused is None else statement.refused.field) == ("thresholds" if refused else None)


def test_a_failure_among_the_rows_states_nothing(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that overflows for some rows and not for others would tell who is ill, for nothing."""

    def make_draw(*_: Any, announcer: Any, **__: Any) -> Any:
        announcer.stage(ApplicationStage.COUNTING)
        raise RecursionError

    monkeypatch.setattr(run, "make_draw", make_draw)
    layout = charged_run(private, monkeypatch)
    assert main(arguments_of(private)) == ExitCode.FAILED
    assert not Path(layout.statement(1)).exists()


def test_a_swapped_request_is_refused_and_none_of_its_files_is_opened(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash came on the command line: another table at another epsilon is not read, nor a file that it names."""
    layout = charged_run(private, monkeypatch)
    swapped = {**REQUEST, "table": {**REQUEST["table"], "path": "/secret"}, "budget": {"epsilon": "1000000"}}
    (private / "request.json").write_text(json.dumps(swapped))
    monkeypatch.setattr(run, "make_draw", lambda *_, **__: pytest.fail("a row was read"))
    assert main(arguments_of(private)) == ExitCode.REFUSED
    assert said() == [
        "request: must be the request that was charged, but the store holds another request; "
        "find out who wrote the request in the store, or install the same version of this package on both sides"
    ]
    assert not Path(layout.draw).exists()


def test_a_charged_run_without_its_secret_is_refused(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = charged_run(private, monkeypatch)
    monkeypatch.delenv(RUN_SECRET_VARIABLE)
    assert main(arguments_of(private)) == ExitCode.REFUSED
    assert said()[-1].startswith(f"{RUN_SECRET_VARIABLE}: must hold the secret of the charged run")
    assert not Path(layout.statement(1)).exists()


def test_the_secret_is_gone_from_the_environment_before_spark_starts(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(run, "make_draw", lambda *_, **__: seen.append(os.environ.get(RUN_SECRET_VARIABLE)))
    charged_run(private, monkeypatch)
    main(arguments_of(private))
    assert seen == [None]


@pytest.mark.parametrize("method", ["auto", "k_norm", "laplace"])
@pytest.mark.parametrize("epsilon", ["1e-24", "1e-14", "1.9e-12", "4e-12", "1e-10"])
@pytest.mark.parametrize("kind", ["linear_fit", "logistic_fit"])
def test_a_fit_is_refused_before_its_noise_or_not_at_all(kind, epsilon, method):
    options = DIAGNOSTICS[kind].model_validate({"kind": kind, **EXAMPLES[kind][0], "method": method})
    for relation in Neighbours:
        noise = RecordingNoise(SecureNoise())
        terms = Terms(epsilon=Decimal(epsilon), delta=0, neighbours=relation, noise=noise)
        try:
            diagnostic(kind).measurement.measure(tables(options, relation)[0], options, terms)
        except InvalidRequest:
            assert not noise.drawn
            assert (kind, method) == ("linear_fit", "k_norm"), "the only one that asks for what cannot be had"
