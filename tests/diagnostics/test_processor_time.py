"""What a release costs in processor time in a plain process, whatever BLAS would do with its threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its BLAS is limited too
from threadpoolctl import threadpool_info, threadpool_limits

from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.diagnostics import roc_curve
from spark_jobs.diagnostics.roc_curve import bands
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.numeric_threads import one_thread
from spark_jobs.statistics import ScoreCounts
from tests.support.repository import ROOT

ROWS, MOST = 20_000, 5.0
"""Rows of a release, and a generous bound of its seconds."""
PROGRAM = """
import json, resource
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.kinds import EXAMPLES, tables, times

def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

found = {}
for kind, options_of in DIAGNOSTICS.items():
    for place, base in enumerate(EXAMPLES[kind]):
        options = options_of.model_validate({"kind": kind, **base})
        table = times(tables(options, Neighbours.ADD_REMOVE)[0], ROWS // 300)
        for epsilon in ("1", "100"):
            before = spent()
            terms = Terms(epsilon=epsilon, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
            draw = diagnostic(kind).measurement.measure(table, options, terms)
            diagnostic(kind).summarise(draw, seed=1)
            found[f"{kind}-{place} at {epsilon}"] = spent() - before
print(json.dumps(found))
"""


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.verify
def test_no_release_of_twenty_thousand_rows_costs_many_seconds() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    program = PROGRAM.replace("ROWS", str(ROWS))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**plain, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = json.loads(done.stdout)
    assert {name.partition("-")[0] for name in seconds} == set(DIAGNOSTICS)
    assert {name: spent for name, spent in seconds.items() if spent > MOST} == {}
    assert seconds["roc_curve-0 at 1"] < 1.0


def test_blas_has_one_thread_within_and_as_many_as_before_after() -> None:
    def failing() -> None:
        assert threads() == {1}
        raise LookupError

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert one_thread(threads)() == {1}
        assert one_thread(one_thread(threads))() == {1}
        with pytest.raises(LookupError):
            one_thread(failing)()
        assert threads() == before


def test_calls_that_overlap_leave_the_process_as_it_was() -> None:
    before = threads()
    begun = Barrier(3, timeout=30)

    def together() -> set[int]:
        begun.wait()
        return threads()

    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            runs = [pool.submit(one_thread(together)) for _ in range(3)]
            assert [run.result() for run in runs] == [{1}] * 3
            assert threads() == before


def test_every_kind_measures_and_summarises_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in DIAGNOSTICS:
        package = __import__(f"spark_jobs.diagnostics.{kind}", fromlist=["DIAGNOSTIC"])
        for function in (package.DIAGNOSTIC.summarise, package.DIAGNOSTIC.measurement.measure):
            assert function.__wrapped__ is not function, kind


@pytest.mark.parametrize("epsilon", [1, 10, 100, 10_000])
def test_simulated_copies_do_not_grow_with_epsilon(epsilon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, original = [], bands.exact_copies

    def watched(draw, curve, *, noise):
        copies = original(draw, curve, noise=noise)
        simulated.append(len(copies[0]) * draw.cuts.size)
        return copies

    monkeypatch.setattr(bands, "exact_copies", watched)
    random = np.random.default_rng(1)
    labels = random.random(ROWS) < 0.3
    scores = np.clip(random.normal(0.4 + 0.2 * labels, 0.15), 0, 1)
    roc_curve.release(ScoreCounts.from_arrays(labels, scores, cells=4096), epsilon=epsilon, noise=SeededNoise(1))
    assert len(simulated) == 1
    assert simulated[0] <= bands.COPIES_OF_FULL_GRID * 4097
