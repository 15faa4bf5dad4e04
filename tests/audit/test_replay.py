"""Nothing of a table reaches a release but through noise: the noise of one table, played back on another.

Every kind of the registry runs with every method and option that is an enumeration or a flag, under both relations; a
kind without a table, or an option without a rule, fails here.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, get_args, get_origin

import pytest
from pydantic import ValidationError

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.base import ScoreCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.audit import LONG
from tests.support.kinds import EXAMPLES, statistic_of, tables, times
from tests.support.replay import RecordingNoise, released_outputs, replay
from tests.support.sharing import measure_shared, read_as

pytestmark = [pytest.mark.audit]

LEFT_OUT = {"kind", "share", "cells"}
"""The kind; a choice of the application; how fine a public grid is."""
DELTA = "1e-6"


def choices(kind):
    """All values of each enumeration and flag among the options of a kind."""
    found = {}
    for name, field in DIAGNOSTICS[kind].model_fields.items():
        if name in LEFT_OUT:
            continue
        parts = [field.annotation, *get_args(field.annotation)]
        values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
        if values:
            found[name] = [*values, *([None] if type(None) in parts else [])]
        elif field.annotation is bool:
            found[name] = [True, False]
    return found


def cases():
    """Every kind with every allowed combination of its choices; after the first of each method, for ``make verify``."""
    seen = set()
    for kind in DIAGNOSTICS:
        names, values = list(choices(kind)), list(choices(kind).values())
        for number, base in enumerate(EXAMPLES[kind]):
            for chosen in product(*values):
                picked = dict(zip(names, chosen, strict=True))
                try:
                    options = DIAGNOSTICS[kind].model_validate({"kind": kind, **base, **picked})
                except (InvalidRequest, ValidationError):
                    continue
                text = "-".join([kind, str(number), *(f"{name}={value}" for name, value in picked.items())])
                method = (kind, number, picked.get("method"))
                yield pytest.param(options, id=text, marks=[pytest.mark.verify] if method in seen else [])
                seen.add(method)


def release(options, relation, epsilon, *, summarised):
    """A function of a statistic and noise: the measurement, what is kept of it, and its summary."""
    kind = diagnostic(options.kind)
    delta = DELTA if options.accepts_delta else 0

    def run(statistic, noise):
        terms = Terms(epsilon=epsilon, delta=delta, neighbours=relation, noise=noise)
        measured = kind.measurement.measure(statistic, options, terms)
        return [measured, measured.to_dict(), kind.summarise(measured, seed=5) if summarised else None]

    return run


def replay_release(options, relation, epsilon, *, summarised, rows=None):
    """Replay a release, or see that it is refused before any noise, whatever the table; the calls that were made.

    With ``rows`` given, the first table has about so many, and of the other each row is as often: a matter of counts.
    """
    one, other = tables(options, relation)
    if rows is not None:
        one, other = (times(table, rows // 300) for table in (one, other))
    run = release(options, relation, epsilon, summarised=summarised)
    try:
        calls = replay(run, one, other, source=SeededNoise(3))
    except InvalidRequest:
        recording = RecordingNoise(SeededNoise(3))
        for table in (one, other):
            with released_outputs(recording), pytest.raises(InvalidRequest):
                run(table, recording)
        assert recording.calls == []
        return None
    assert calls, "nothing was drawn"
    return calls


EVERY = list(cases())
FIRST = list({"-".join(case.id.split("-")[:2]): case for case in reversed(EVERY)}.values())
"""One case of each kind and each base."""
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def test_every_kind_has_a_table():
    ran = {tuple(case.id.split("-")[:2]) for case in EVERY}
    assert ran == {(kind, str(number)) for kind in DIAGNOSTICS for number in range(len(EXAMPLES[kind]))}


@pytest.mark.sampled("options", "relation")
@pytest.mark.halved
@BOTH
@pytest.mark.parametrize("options", EVERY)
def test_the_noise_of_one_table_makes_the_same_measurement_of_another(options, relation):
    calls = replay_release(options, relation, "1", summarised=False)
    # only a sum of lines' medians needs sizes that are public, which a relation or an option may not grant
    assert calls is not None or "theil_sen" in options.method


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize("options", FIRST)
def test_the_noise_of_one_table_makes_the_same_summary_of_another(options, relation):
    assert replay_release(options, relation, "1", summarised=True) is not None


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("options", EVERY if LONG else FIRST)
@pytest.mark.parametrize("epsilon", ["0.01", "100"])
def test_so_it_is_with_little_and_with_much_budget(options, relation, epsilon):
    replay_release(options, relation, epsilon, summarised=LONG)


SIGNAL = 10**6
"""Rows times epsilon: beyond the places where methods and grids change with what the noise leaves."""


@pytest.mark.sampled("options", "relation")
@pytest.mark.halved
@BOTH
@pytest.mark.parametrize("options", FIRST)
def test_so_it_is_with_a_million_rows_times_epsilon(options, relation):
    few = replay_release(options, relation, "1", summarised=False)
    many = replay_release(options, relation, "1", summarised=False, rows=SIGNAL)
    assert (few is None) == (many is None)


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("options", EVERY)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_so_it_is_with_a_million_rows_times_any_epsilon(options, relation, epsilon):
    replay_release(options, relation, epsilon, summarised=False, rows=int(SIGNAL / float(epsilon)))


def test_tables_of_a_million_rows_lead_to_paths_that_small_tables_do_not():
    """Logistic fits make further passes, which is where a draw would depend on the rows if anywhere."""
    [fit] = [case.values[0] for case in FIRST if case.id.startswith("logistic_fit-0")]
    few, many = (
        replay_release(fit, Neighbours.ADD_REMOVE, "1", summarised=False, rows=rows) for rows in (None, SIGNAL)
    )
    assert len(many) > len(few)


@BOTH
def test_the_noise_of_a_shared_release_makes_the_same_of_another_table(relation):
    readers = [options.model_validate({"kind": kind, **EXAMPLES[kind][-1]}) for kind, options in DIAGNOSTICS.items()]
    # groups share a measurement by key, which has an audit of its own
    sharing = [options for options in readers if options.can_share and options.kind != "by_group"]
    assert len(sharing) == 10

    def run(statistic, noise):
        shared = measure_shared(statistic, diagnostics=sharing, epsilon="1", neighbours=relation, noise=noise)
        read = [diagnostic(options.kind).summarise(read_as(options, shared), seed=5) for options in sharing]
        return [shared, shared.to_dict(), read]

    assert replay(run, *(statistic_of(ScoreCells(), seed, sizes=None) for seed in (0, 1)), source=SeededNoise(4))
