"""The demo's data and model are what they are said to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dp_operators.operators.requests import read_request
from examples.demo import lake, setting


def test_model_is_what_fitting_it_again_gives() -> None:
    assert lake.fit_model() == lake.load_model()


def test_fitted_and_released_rows_share_no_family() -> None:
    rows = lake.person_years()
    assert len(rows) == lake.ROWS
    household = ["lncoins", "idp", "lpi", "fmde"]
    last, first = rows.iloc[lake.FITTED_ROWS - 1], rows.iloc[lake.FITTED_ROWS]
    assert (last[household] != first[household]).any()
    # the half is not an end of a family: that is why the cut lies a little behind it
    assert (rows.iloc[lake.ROWS // 2 - 1][household] == rows.iloc[lake.FITTED_ROWS - 1][household]).all()
    assert 0 <= lake.FITTED_ROWS - lake.ROWS // 2 < 20


def test_lake_holds_the_rows_that_were_not_fitted(tmp_path: Path) -> None:
    import pandas as pd

    lake.write_lake(tmp_path, "v1")
    written = pd.read_parquet(tmp_path / "v1")
    expected = lake.person_years()[lake.FITTED_ROWS :].reset_index(drop=True)
    pd.testing.assert_frame_equal(written.drop(columns=lake.RISK), expected)
    assert set(written[lake.OUTCOME].unique()) == {0, 1}
    assert ((written["mdvis"] > 0) == written[lake.OUTCOME].astype(bool)).all()


def test_lake_that_is_there_is_left_alone(tmp_path: Path) -> None:
    lake.write_lake(tmp_path, "v1")
    [file] = (tmp_path / "v1").iterdir()
    before = file.stat()
    lake.write_lake(tmp_path, "v1")
    assert file.stat() == before
    assert list((tmp_path / "v1").iterdir()) == [file]


def test_model_scores_better_than_guessing() -> None:
    from scipy.special import expit
    from sklearn.metrics import roc_auc_score

    rows, model = lake.scored(), lake.load_model()
    logit = model["intercept"] + sum(value * rows[name] for name, value in model["coefficients"].items())
    np.testing.assert_allclose(rows[lake.RISK], expit(logit), rtol=1e-12)
    assert roc_auc_score(rows[lake.OUTCOME], rows[lake.RISK]) == pytest.approx(0.652, abs=0.001)


def test_setting_makes_a_request() -> None:
    request = read_request(
        {
            "account": setting.ACCOUNT,
            "table": setting.TABLE,
            "label": lake.OUTCOME,
            "model": setting.SCORES,
            "diagnostics": "roc_curve",
            "budget": {"epsilon": setting.EPSILON},
            "output": setting.OUTPUT,
        }
    )
    assert request.model.basis == "public"
    assert request.unit.describe() == "one row of the table"
