"""What an ``ecdf`` is compared with, in a request: the values themselves, on the request's own grid."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import unit_of_log
from spark_jobs.contract.options import EarlierFunction
from spark_jobs.contract.request import ReleaseRequest
from tests.support.requests import a_request

RESULT: dict[str, Any] = {
    "status": "ok",
    "rows": 1203.5,
    "bounds_found": False,
    "named": "amount",
    "smoothing": "2-norm",
    "grid": {"lower": 0.0, "upper": 100.0, "cells": 256, "scale": "linear", "unit": None},
    "tree": {"cells": 256, "branching": 16, "root": "absent"},
    "noise_scale": 2.0,
}
CDF = [0.0] * 10 + [0.25] * 100 + [0.5] * 100 + [1.0] * 46
HELD = EarlierFunction.of(RESULT, CDF, released_by="march").model_dump(mode="json")
ASKED = {"kind": "ecdf", "column": "amount", "bounds": [0, 100], "cells": 256}


def asked(**changes: Any) -> ReleaseRequest:
    return ReleaseRequest.parse({**a_request().to_dict(), "diagnostics": [{**ASKED, "compare_with": HELD, **changes}]})


def refusal(**changes: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        asked(**changes)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_only_steps_are_held() -> None:
    assert (HELD["starts"], HELD["cdf"]) == ([10, 110, 210], [0.25, 0.5, 1.0])


def test_a_request_holds_it_and_its_hash_covers_it() -> None:
    request = asked()
    assert ReleaseRequest.from_json(request.to_json()) == request
    assert ReleaseRequest.from_yaml(request.to_yaml()) == request
    moved = asked(compare_with={**HELD, "cdf": [0.25, 0.500000001, 1.0]})
    assert len({request.sha256, moved.sha256, asked(compare_with=None).sha256}) == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"bounds": [0, 200]},
            "with bounds [0.0, 100.0]'; must be on the grid of this release, with bounds [0.0, 200.0]",
        ),
        ({"cells": 512}, "with cells 256'; must be on the grid of this release, with cells 512"),
        ({"scale": "log"}, "with scale linear"),
        (
            {"bounds": None},
            "needs public bounds in this release as well; give the bounds of the named release, [0, 100]",
        ),
        ({"column": None, "bounds": None}, "must be on the grid of this release, with bounds [0.0, 1.0]"),
    ],
)
def test_another_grid_is_refused(changes: dict[str, Any], told: str) -> None:
    line = refusal(**changes)
    assert line.startswith("diagnostics.compare_with: got")
    assert told in line


def test_the_unit_of_a_logarithmic_grid_is_part_of_it() -> None:
    log = {**HELD, "scale": "log", "unit": 100 * 2.0**-20}
    assert asked(scale="log", compare_with=log).diagnostics
    assert "with unit" in refusal(scale="log", unit=0.5, compare_with=log)


@pytest.mark.parametrize(
    ("bounds", "unit"), [((0, 8), 8 * 2.0**-20), ((-4, 8), 8 * 2.0**-20), ((2, 8), 2), ((-8, -4), 4)]
)
def test_a_unit_that_is_not_given_follows_from_the_bounds(bounds: tuple[float, float], unit: float) -> None:
    assert unit_of_log(*bounds) == unit
    assert unit_of_log(*bounds, 0.25) == 0.25


@pytest.mark.parametrize("named", ["/releases/march", {"release": "/releases/march"}, {"uri": "x", "key": "y"}])
def test_a_name_is_no_function_where_no_ledger_is_asked(named: Any) -> None:
    assert "only the ledger can verify; run the request by the operator or by dp-budget run" in refusal(
        compare_with=named
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"cdf": [0.5, 0.25, 1.0]},
        {"cdf": [0.25, 0.5, 0.75]},
        {"starts": [10, 10, 210]},
        {"starts": [-1, 110, 210]},
        {"starts": [10, 110, 256]},
        {"starts": [10, 110]},
        {"starts": [], "cdf": []},
        {"status": "undefined"},
        {"cdf": [0.25, float("nan"), 1.0]},
        {"rows": -1},
        {"noise_scale": 0},
        {"branching": 1},
        {"smoothing": "3-norm"},
        {"upper": float("inf")},
    ],
)
def test_what_is_no_distribution_function_is_refused(changes: dict[str, Any]) -> None:
    assert refusal(compare_with={**HELD, **changes}).startswith("diagnostics.compare_with")


def test_a_data_file_of_another_release_is_no_function() -> None:
    with pytest.raises(ValueError, match="the manifest have different functions"):
        EarlierFunction.of(RESULT, CDF[:-1], released_by="march")
