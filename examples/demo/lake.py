"""The demo's data and model: people of the RAND Health Insurance Experiment, and a model fitted on others of them.

``statsmodels.datasets.randhie`` holds 20,190 person-years, sorted so that the years of a person and the people of a
family stand together. The model is fitted on the first half and the release is about the second, so that no row of the
release shaped the model; the cut is moved to the end of the family it falls in.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20_190
FITTED_ROWS = 10_102
OUTCOME = "any_visit"
FEATURES = ("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
BOUNDS = {
    "lncoins": (0, 4.7),
    "idp": (0, 1),
    "lpi": (0, 8),
    "fmde": (0, 9),
    "physlm": (0, 1),
    "disea": (0, 60),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}
"""Public bounds of the features, from what they are: logarithms of rates up to 101 and of dollars, a score, 0 or 1."""
MODEL_FILE = Path(__file__).with_name("model.json")
DECIMALS = 4


def person_years() -> pd.DataFrame:
    """All rows, with the outcome: whether the person saw a doctor at all in that year."""
    from statsmodels.datasets import randhie

    rows: pd.DataFrame = randhie.load_pandas().data
    rows[OUTCOME] = (rows["mdvis"] > 0).astype("int64")
    return rows


def fit_model() -> dict[str, Any]:
    """The logistic model of the demo, fitted by maximum likelihood on the rows that are never released.

    ``model.json`` is this, and is declared public: who fits a model on the rows of a release has to pay for it.
    """
    import statsmodels.api as sm

    rows = person_years()[:FITTED_ROWS]
    fitted = sm.Logit(rows[OUTCOME], sm.add_constant(rows[list(FEATURES)])).fit(disp=0)
    coefficients = {name: round(float(value), DECIMALS) for name, value in fitted.params.items()}
    intercept = coefficients.pop("const")
    return {"kind": "logistic", "basis": "public", "intercept": intercept, "coefficients": coefficients}


def load_model() -> dict[str, Any]:
    """The model as a request takes it."""
    return dict(json.loads(MODEL_FILE.read_text()))


RISK = "risk"


def scored() -> pd.DataFrame:
    """The rows that the model was not fitted on, with the risk that it gives each: the probability of a visit."""
    import numpy as np

    rows, model = person_years()[FITTED_ROWS:], load_model()
    logit = model["intercept"] + sum(value * rows[name] for name, value in model["coefficients"].items())
    return rows.assign(**{RISK: 1 / (1 + np.exp(-logit))})


def write_lake(table: Path, version: str) -> None:
    """Write the rows that the model was not fitted on as one version of a Parquet table, unless it is there."""
    _write(table / version / "part-0.parquet", scored)


def write_all(table: Path, version: str) -> None:
    """The same of all rows, which no model has scored."""
    _write(table / version / "part-0.parquet", person_years)


PLANS = {"free": (0.0, 0.0), "shared": (0.1, 4.0), "full": (4.0, 5.0)}
"""Insurance plans by the logarithm of their rate of coinsurance: the silos of a federated release, a family in one."""


def write_plan(table: Path, version: str, plan: str) -> None:
    """Write the rows of one plan, of those that the model was not fitted on."""
    low, high = PLANS[plan]
    _write(
        table / version / "part-0.parquet", lambda: person_years()[FITTED_ROWS:].query(f"{low} <= lncoins <= {high}")
    )


def _write(file: Path, rows: Callable[[], pd.DataFrame]) -> None:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"_{os.getpid()}.tmp")
        rows().to_parquet(aside, index=False)
        aside.replace(file)


VISITS_A_DAY = 1_000
DAYS = 3
"""Days before a version of the table of visits that are in it."""


def visits(day: dt.date) -> pd.DataFrame:
    """Invented visits of one day, always the same: the risk that a model gave, and whether the patient came back."""
    import numpy as np
    import pandas as pd

    # two sequences that fill the unit square evenly, from another corner each day
    number = np.arange(VISITS_A_DAY) + day.toordinal() * VISITS_A_DAY
    risk = 0.05 + 0.85 * (number * 0.7548776662 % 1) ** 1.5
    came_back = np.where(number * 0.5698402910 % 1 < risk, "yes", "no")
    return pd.DataFrame({"visited_on": [day] * VISITS_A_DAY, "risk": risk, "came_back": came_back})


def write_visits(table: Path, version: str) -> None:
    """Write the version of the table of visits that is named by a day: the visits of the days before it.

    A visit is the same in every version that it is in.
    """
    import pandas as pd

    today = dt.date.fromisoformat(version)
    days = [today - dt.timedelta(days=before) for before in range(DAYS, 0, -1)]
    _write(table / version / "part-0.parquet", lambda: pd.concat(map(visits, days)))


ARRIVALS_FROM = dt.date(2026, 1, 1)
"""The first day of the table of arrivals."""
_HOURLY = (2, 1, 1, 1, 2, 4, 9, 18, 30, 36, 34, 31, 28, 27, 26, 24, 22, 20, 16, 12, 9, 6, 4, 3)
"""Invented arrivals of an ordinary day, by hour."""


def arrivals(day: dt.date) -> pd.DataFrame:
    """Invented arrivals of one day, always the same: fewer at weekends, and a burst on each fifteenth of a month."""
    import numpy as np
    import pandas as pd

    # whole numbers that look irregular: the fractional parts of multiples of an irrational number
    wave = (np.arange(24) + 24 * day.toordinal()) * 0.6180339887 % 1
    expected = np.array(_HOURLY) * (0.5 if day.weekday() >= 5 else 1.0) * (0.8 + 0.4 * wave)
    if day.day == 15:
        expected[10:12] *= 3
    hours = np.repeat(np.arange(24), np.rint(expected).astype(int))
    minutes = (np.arange(hours.size) * 0.7548776662 % 1) * 60
    moments = pd.Timestamp(day, tz="UTC") + pd.to_timedelta(hours * 60 + minutes, unit="min").floor("s")
    # Spark reads no nanoseconds
    return pd.DataFrame({"arrived_at": moments.astype("datetime64[us, UTC]")})


def write_arrivals(table: Path, version: str) -> None:
    """Write the version of the table of arrivals that is named by a day: all arrivals before it."""
    import pandas as pd

    days = (dt.date.fromisoformat(version) - ARRIVALS_FROM).days
    rows = [arrivals(ARRIVALS_FROM + dt.timedelta(days=number)) for number in range(max(days, 1))]
    _write(table / version / "part-0.parquet", lambda: pd.concat(rows))
