"""Labels and scores to measure accuracy on: real tables where they are present, and synthetic ones of a known curve."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.harness import progress
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.statistics import ScoreCounts

FOLDER = Path(__file__).parents[2] / "shared" / "data"
"""Where real tables may lie, beside the repository; without them their rows are left out, and said to be."""

Scored = tuple[Int64Array, FloatArray]


def binormal_quantiles(auc: float, rows: int) -> Scored:
    """Half the rows of each class, at the quantiles of two normal distributions with this area: no sampling error."""
    distance = sqrt(2) * norm.ppf(auc)
    half = rows // 2
    quantiles = norm.ppf((np.arange(half) + 0.5) / half)
    scores = expit(np.concatenate([quantiles - distance / 2, quantiles + distance / 2]))
    return np.repeat(np.array([0, 1]), half), scores


def heavy_tailed(rows: int, share: float, seed: int) -> Scored:
    """Log-odds of Student's distributions with two degrees of freedom: many rows far out at the top."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < share).astype(np.int64)
    return labels, expit(0.3 * labels - 1 + random.standard_t(2, rows) * (0.3 + 0.4 * labels))


def two_humps(rows: int, share: float, seed: int) -> Scored:
    """Half the rows score around 0.05, where classes overlap a lot, and half around 0.7, where they overlap little."""
    random = np.random.default_rng(seed)
    labels, low = (random.random(rows) < share).astype(np.int64), random.random(rows) < 0.5
    return labels, expit(np.where(low, random.normal(0.5 * labels - 3, 0.3), random.normal(1.5 * labels + 0.5, 0.8)))


def beta_scores(rows: int, share: float, seed: int) -> Scored:
    """Scores of beta distributions, which reach both ends of the scale."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < share).astype(np.int64)
    return labels, np.where(labels == 1, random.beta(2, 1, rows), random.beta(1, 3, rows))


def two_decimals(rows: int, share: float, seed: int) -> Scored:
    """Normal log-odds, scores rounded to hundredths: many ties."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < share).astype(np.int64)
    return labels, np.round(expit(random.normal(size=rows) + 1.2 * labels - 1), 2)


def skewed(rows: int, share: float, seed: int) -> Scored:
    """Gamma log-odds that begin at a floor, as of models with many zero features."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < share).astype(np.int64)
    return labels, expit(random.gamma(1.0 + labels, 0.9, rows) - 2.5)


OTHER_SHAPES = {
    "heavy tails": heavy_tailed,
    "two humps": two_humps,
    "beta": beta_scores,
    "two decimals": two_decimals,
    "skewed": skewed,
}
"""Shapes besides the normal one. Skewed scores were added after all constants of average precision had been fixed."""


def real_tables() -> dict[str, Scored]:
    """Name -> labels and scores of the half of a real table that its logistic model was not fitted on."""
    makers: dict[str, tuple[str, Callable[[Path], Scored]]] = {
        "SMS spam": ("sms_spam.tsv.gz", _sms),
        "Adult": ("adult.csv.gz", _adult),
        "bank": ("bank-full.csv.gz", _bank),
        "diabetes": ("diabetic_data.csv.gz", _diabetes),
    }
    tables = {}
    for name, (file, make) in makers.items():
        if (FOLDER / file).is_file():
            tables[name] = make(FOLDER / file)
        else:
            progress(f"SKIPPED: {name}: its file {file} is not here; its rows are missing from the tables below")
    return tables


def counts(scored: Scored) -> ScoreCounts:
    """The statistic of these rows."""
    return ScoreCounts.from_arrays(*scored)


def kept_of_patients(scored: Scored, max_rows: int) -> Scored:
    """At most ``max_rows`` rows of each patient of ``diabetes``, with the given scores: those with the smallest hashes.

    The hash needs no salt here, where nothing is released; a job's is secret.
    """
    table = pd.read_csv(FOLDER / "diabetic_data.csv.gz", usecols=["encounter_id", "patient_nbr"])
    table = table.iloc[_parts(len(table))[1]].reset_index(drop=True)
    table["hash"] = [hashlib.sha256(str(visit).encode()).digest() for visit in table["encounter_id"]]
    kept = np.sort(table.sort_values("hash").groupby("patient_nbr").head(max_rows).index)
    return scored[0][kept], scored[1][kept]


def _parts(rows: int) -> tuple[Int64Array, Int64Array]:
    """The rows that a model is fitted to, and those that it scores."""
    order = np.random.default_rng(1).permutation(rows)
    return order[: rows // 2], order[rows // 2 :]


def _halves(features: object, labels: Int64Array, model: object) -> Scored:
    fitted, scored = _parts(labels.size)
    take = (lambda rows: features.iloc[rows]) if hasattr(features, "iloc") else (lambda rows: features[rows])
    model.fit(take(fitted), labels[fitted])
    return labels[scored], model.predict_proba(take(scored))[:, 1]


def _tabular() -> object:
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", min_frequency=20), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=300))


def _sms(path: Path) -> Scored:
    table = pd.read_csv(path, sep="\t", header=None, names=["label", "text"], quoting=3)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=300))
    return _halves(table["text"], (table["label"] == "spam").to_numpy(np.int64), model)


def _adult(path: Path) -> Scored:
    table = pd.read_csv(path)
    features = table[["age", "education_num", "hours_per_week", "sex", "marital_status", "occupation"]]
    return _halves(features, table["income"].str.contains(">50K").to_numpy(np.int64), _tabular())


def _bank(path: Path) -> Scored:
    table = pd.read_csv(path, sep=";")
    return _halves(table.drop(columns=["y", "duration"]), (table["y"] == "yes").to_numpy(np.int64), _tabular())


def _diabetes(path: Path) -> Scored:
    table = pd.read_csv(path, low_memory=False)
    numbers = ["time_in_hospital", "num_lab_procedures", "num_medications", "number_inpatient", "number_diagnoses"]
    features = table[[*numbers, "age", "gender", "insulin", "A1Cresult"]].fillna("none")
    return _halves(features, (table["readmitted"] != "NO").to_numpy(np.int64), _tabular())
