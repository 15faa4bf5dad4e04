"""Two months with the real application: the second is compared with the first, and pays for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_operators.releasing import with_references
from spark_jobs.contract import Release
from spark_jobs.diagnostics import ecdf
from tests.releasing.test_real_application import attempt, open_account, write_table
from tests.support.release_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

AMOUNTS = {"kind": "ecdf", "column": "amount", "bounds": [0, 100], "cells": 1024}


def months() -> pd.DataFrame:
    random = np.random.default_rng(7)
    amounts = {name: random.normal(mean, 12, 3000) for name, mean in (("march", 40.0), ("april", 45.0))}
    return pd.concat([pd.DataFrame({"month": name, "amount": values}) for name, values in amounts.items()])


def read(uri: str) -> tuple[Release, ecdf.Ecdf]:
    release = Release.from_json(Path(uri, "release.json").read_bytes())
    table = pq.read_table(Path(uri, "ecdf.parquet"))
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return release, ecdf.Ecdf.from_release(release.results["ecdf"], columns)


def test_a_month_is_compared_with_the_one_before(lab: Lab) -> None:
    table = write_table(Path(lab.output).parent / "visits", months())
    open_account(lab, table)

    def month(name: str, **options: Any) -> Any:
        fields = {"diagnostics": [{**AMOUNTS, **options}], "where": f"month = '{name}'", "label": None, "model": None}
        # what the operator and the command line do with a request before it is one
        return attempt(lab, table, key=f"prod/{name}", **with_references(fields, lab.ledger()))

    first = month("march")
    second = month("april", compare_with={"uri": first.uri, "key": first.key, "cost": {}})
    assert month("april", compare_with=first.uri).adopted, "however it is named, it is the same request"
    march, april = read(first.uri), read(second.uri)
    assert april[1].comparison is not None
    assert april[1].comparison.released_by == first.key == march[0].key
    np.testing.assert_array_equal(april[1].comparison.cdf, march[1].cdf)
    judged = april[1].comparison.distance
    again = ecdf.distance_between(april[1], march[1])
    assert (judged.value, judged.at) == (again.value, again.at)
    assert judged.p_value < 0.01
    assert judged.interval[0] <= judged.value <= judged.interval[1]
    assert f"release {first.key} published" in " ".join(april[0].assumptions)
    assert [charge.state.value for charge in lab.ledger().history("visits")] == ["committed", "committed"]
    assert lab.ledger().remaining("visits").epsilon == 98
