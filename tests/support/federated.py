"""Silos and servers of a federated release: keys, an agreement, and each role as a program of its own.

``python tests/support/federated.py ROLE NAME FOLDER`` plays one role. ``KILL_AT=N:before`` (or ``after``) kills it
before (or after) it creates its N-th object, counted from 0.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.federation.agreement import Agreement, Keys, Server
from spark_jobs.federation.exchange import Silo, Summing, draw_hash
from spark_jobs.federation.measuring import measure_in_silo
from spark_jobs.mechanisms import codec
from spark_jobs.statistics import ScoreCounts

SILOS, SERVERS = ("north", "south", "west"), ("one", "two")
KIND, OPTIONS = "roc_curve", {"epsilon": "1", "method": "equi_depth"}
"""A measurement of several rounds."""


def statistic(name: str) -> ScoreCounts:
    """A silo's table."""
    rng = np.random.default_rng(SILOS.index(name))
    labels = rng.random(500 * (1 + SILOS.index(name))) < 0.4
    return ScoreCounts.from_arrays(labels, np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 1), cells=256)


def prepare(folder: Path, **changed: object) -> tuple[Agreement, dict[str, Keys]]:
    """Keys of everybody and their agreement, in a folder."""
    keys = {name: Keys.generate() for name in (*SILOS, *SERVERS)}
    for name, own in keys.items():
        (folder / f"{name}.keys").write_text(own.to_text())
    servers = [
        Server(**keys[name].public(name).model_dump(), folder=str(folder / f"server-{name}")) for name in SERVERS
    ]
    agreement = Agreement(
        **{
            "session": "monday",
            "request_sha256": "0" * 64,
            "epsilon": "1",
            "silos": [keys[name].public(name) for name in SILOS],
            "servers": servers,
            "wait_seconds": 180,
            **changed,
        }
    )
    (folder / "agreement.json").write_text(agreement.model_dump_json())
    return agreement, keys


def play(role: str, name: str, folder: Path) -> None:
    """One role, from start to end; a silo leaves its draw in ``NAME.draw``."""
    agreement = Agreement.parse(json.loads((folder / "agreement.json").read_text()))
    own = {"agreement": agreement, "keys": Keys.from_text((folder / f"{name}.keys").read_text()), "poll_seconds": 0.01}
    if role == "server":
        Summing(server=name, receipts=str(folder / "receipts" / name), **own).serve()
        return
    silo = Silo(silo=name, **own)
    draw = codec.encode(measure_in_silo(diagnostic(KIND), statistic(name), exchange=silo.exchange, **OPTIONS))
    silo.end(draw_hash(draw))
    (folder / f"{name}.draw").write_text(json.dumps(draw))


def kill_at(place: int, when: str) -> None:
    """Replace exclusive create by one that kills this process."""
    from spark_jobs.contract.store.objects import LocalStore

    create, calls = LocalStore.create, itertools.count()

    def killing(self: LocalStore, uri: str, content: bytes) -> bool:
        here = next(calls) == place
        if here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        created = create(self, uri, content)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return created

    LocalStore.create = killing


if __name__ == "__main__":
    if wanted := os.environ.get("KILL_AT"):
        number, moment = wanted.split(":")
        kill_at(int(number), moment)
    play(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
