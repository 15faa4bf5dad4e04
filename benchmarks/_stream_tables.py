"""Streams to measure on: simulated ones with the totals of the source, and real ones if they lie beside the repository.

Chen 2018, table 5.1: 128 access points of a campus network, 20,000 steps of five minutes, 646,254 connections. Those
data are not public. The simulated stream has the same totals. The rates of states are lognormal with a deviation of 2
in the logarithm, like those of the three access points of that table; days and weeks have their shape, and each state
its own phase of the day.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness import progress
from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy

FOLDER = Path(__file__).parents[2] / "shared" / "data"
MISSING = "SKIPPED: the real streams are not beside the repository; figures are those of simulated streams alone"
STATES, STEPS, EVENTS = 128, 20_000, 646_254
DAY = 288


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """A stream of counts.

    Attributes:
        counts: of each step, shape (n,).
        day: the number of steps of a day.
    """

    counts: Int64Array
    day: int


def real_streams(steps: int) -> dict[str, Stream]:
    """The first steps of every real stream; empty where a file is missing."""
    taxis = FOLDER / "nab_nyc_taxi_30min.csv.gz"
    wifi, trips, tweets = buildings(), stations(5), companies()
    if wifi is None or trips is None or tweets is None or not taxis.is_file():
        progress(MISSING)
        return {}
    by_station = trips[0]
    counts = {
        "devices": wifi[:, 0],
        "trips": by_station.sum(axis=1),
        "trips, one station": by_station[:, by_station.sum(axis=0).argmax()],
        "tweets": tweets[:, 0],
    }
    streams = {name: Stream(counts=values[:steps], day=DAY) for name, values in counts.items()}
    return {**streams, "taxis": Stream(counts=pd.read_csv(taxis)["value"].to_numpy(np.int64)[:steps], day=48)}


def simulated_states(steps: int = STEPS, *, seed: int = 5) -> Int64Array:
    """Events of each step in each state, shape (steps, 128): ``EVENTS`` of them in ``STEPS`` steps."""
    random = np.random.default_rng(seed)
    busy, phase = random.lognormal(0, 2.0, STATES), random.normal(0, 0.06, STATES)
    at = np.arange(steps)[:, None]
    daily = np.clip(np.sin(2 * np.pi * (at / DAY - 0.3 + phase)), 0, None) + 0.03
    rates = busy * daily * np.where((at // DAY) % 7 < 5, 1.0, 0.35)
    events = round(EVENTS * steps / STEPS)
    return random.multinomial(events, (rates / rates.sum()).ravel()).reshape(steps, STATES)


def buildings() -> Int64Array | None:
    """Devices on the network of four buildings, every five minutes, shape (94,279, 4); None if the file is missing."""
    file = FOLDER / "wifi_campus2_5min.csv.gz"
    if not file.is_file():
        return None
    table = pd.read_csv(file).filter(like="building_").fillna(0)
    return np.rint(table.to_numpy()).astype(np.int64)


def companies() -> Int64Array | None:
    """Tweets about ten companies, every five minutes, shape (n, 10); None if the file is missing."""
    file = FOLDER / "nab_twitter_5min.csv.gz"
    if not file.is_file():
        return None
    posts = pd.read_csv(file)
    columns = [values.to_numpy(np.int64) for _, values in posts.groupby("ticker", sort=True)["value"]]
    shortest = min(column.size for column in columns)
    return np.stack([column[:shortest] for column in columns], axis=1)


def stations(minutes: int) -> tuple[Int64Array, Hierarchy] | None:
    """Bicycle trips by step and station, and the stations' cities as a hierarchy; None if a file is missing."""
    trips, places = FOLDER / "bayarea_trips2014.csv.gz", FOLDER / "bayarea_stations.csv.gz"
    if not (trips.is_file() and places.is_file()):
        return None
    known = pd.read_csv(places).sort_values(["landmark", "station_id"])
    order = pd.Series(np.arange(len(known)), index=known["station_id"])
    table = pd.read_csv(trips, usecols=["start_date", "start_terminal"], parse_dates=["start_date"])
    step = (table["start_date"] - pd.Timestamp("2014-01-01")) // pd.Timedelta(minutes=minutes)
    station = order[table["start_terminal"]].to_numpy()
    counts = np.zeros((int(step.max()) + 1, len(known)), dtype=np.int64)
    np.add.at(counts, (step.to_numpy(), station), 1)
    of_city = known.groupby("landmark", sort=True).size().to_numpy()
    return counts, Hierarchy(order=np.arange(len(known)), children=(of_city, np.array([of_city.size])))
