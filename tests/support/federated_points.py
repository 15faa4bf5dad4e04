"""Silos whose rows two servers count below points, in threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.diagnostics import cdf_points
from spark_jobs.federation.additive import add
from spark_jobs.federation.agreement import Agreement, Keys
from spark_jobs.federation.comparison import evaluate
from spark_jobs.federation.exchange import EVERYBODY, FederationFailed, Silo, draw_hash
from spark_jobs.federation.measuring import SiloNoise
from spark_jobs.federation.messages import read, vector
from spark_jobs.federation.serving import Summing
from spark_jobs.mechanisms import codec
from spark_jobs.statistics import ValueCounts
from tests.support.federated import SERVERS, SILOS, prepare

CELLS, SILO_ROWS = 256, 600
POINTS: dict[str, Any] = {
    "thresholds": (20.0, 50.5), "quantiles": (0.25, 0.5), "more_evaluations": 2, "silo_rows": SILO_ROWS,
}  # fmt: skip
AMOUNTS = {
    name: np.random.default_rng(number).gamma(2.0, 15.0, 150 * (1 + number)) for number, name in enumerate(SILOS)
}


def counted(*names: str) -> ValueCounts:
    """The rows of these silos together."""
    amounts = np.concatenate([AMOUNTS[name] for name in names])
    return ValueCounts.from_arrays(amounts, lower=0, upper=100, cells=CELLS)


def serving(agreement: Agreement, keys: Mapping[str, Keys], folder: Path, name: str) -> Summing:
    """A server."""
    receipts = str(folder / "receipts" / name)
    return Summing(agreement=agreement, keys=keys[name], server=name, receipts=receipts, poll_seconds=0.005)


def together(
    agreement: Agreement,
    keys: Mapping[str, Keys],
    folder: Path,
    *,
    roles: Mapping[str, Callable[[str], Any]] | None = None,
    later: Sequence[Sequence[int]] = (),
) -> tuple[dict[str, Any], list[Int64Array | FederationFailed]]:
    """Every silo's draw, or its error, and the answers to what one silo asks ``later``; ``roles`` replace silos."""

    def in_silo(name: str) -> Any:
        silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        noise = SiloNoise(silo.exchange, guarantee="differentially private", deposit=silo.deposit)
        draw = cdf_points.measure(counted(name), epsilon=1, noise=noise, **POINTS)
        silo.end(draw_hash(codec.encode(draw)))
        return draw

    def ask(points: Sequence[int]) -> Int64Array | FederationFailed:
        silo = Silo(agreement=agreement, keys=keys["south"], silo="south", poll_seconds=0.005)
        resumed, deposit, _ = silo.resumed()
        try:
            return resumed.ask(deposit, np.array(points))
        except FederationFailed as failed:
            return failed

    with ThreadPoolExecutor(len(SILOS) + len(SERVERS)) as pool:
        for name in SERVERS:
            pool.submit(serving(agreement, keys, folder, name).serve, answer_seconds=20.0 if later else 0.0)
        runs = {name: pool.submit((roles or {}).get(name, in_silo), name) for name in SILOS}
        draws = {name: run.exception() or run.result() for name, run in runs.items()}
        return draws, [ask(points) for points in later]


def answered(
    tables: Mapping[str, Int64Array], points: Int64Array, folder: Path, *, epsilon: str, **agreed: object
) -> tuple[Int64Array, Int64Array]:
    """The numbers of all silos' rows below points, and the first server's share of their noise."""
    agreement, keys = prepare(folder, epsilon=epsilon, **agreed)
    terms: dict[str, Any] = {"epsilon": epsilon, "evaluations": points.size, "capacity": 2}

    def ask(name: str) -> Int64Array:
        silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        numbers = silo.deposit(tables[name], **terms)(points)
        silo.end("a draw")
        return numbers

    with ThreadPoolExecutor(len(SILOS) + len(SERVERS)) as pool:
        for name in SERVERS:
            pool.submit(serving(agreement, keys, folder, name).serve)
        numbers, *_ = pool.map(ask, SILOS)
    first = serving(agreement, keys, folder, SERVERS[0])
    sent = [first._received(silo, 0) for silo in agreement.silos]
    kept = first._answering_with(sent)[0].silo_keys
    own = add([evaluate(silo_keys, points) for silo_keys in kept])
    content = Path(agreement.servers[0].folder, "1", "sum").read_bytes()
    where: dict[str, Any] = {"agreement": agreement, "sender": agreement.servers[0], "turn": 1}
    _, payload = read(content, kinds=("sum",), recipient=EVERYBODY, **where)
    share = vector(payload, shape=points.shape, sender=SERVERS[0])
    return numbers, (share - own).view(np.int64)
