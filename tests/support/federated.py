"""Silos and servers of a federated release: keys, an agreement, and each role as a program of its own.

``python tests/support/federated.py ROLE NAME FOLDER`` plays one role.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.federation.additive import Share, add
from spark_jobs.federation.agreement import Agreement, Keys, Server
from spark_jobs.federation.exchange import EVERYBODY, Silo, draw_hash
from spark_jobs.federation.measuring import measure_in_silo
from spark_jobs.federation.messages import context, decrypt, read, vector
from spark_jobs.federation.serving import Summing
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import Cost
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


def exchanged(
    vectors: Mapping[str, Int64Array], folder: Path, *, epsilon: Cost = "1", **agreed: object
) -> tuple[Int64Array, Agreement, dict[str, Keys]]:
    """One round between all roles, in threads: the published sum, and what stands in the folder can be read with."""
    agreement, keys = prepare(folder, **{"epsilon": "1000", **agreed})
    poll: dict[str, Any] = {"agreement": agreement, "poll_seconds": 0.005}

    def ask(name: str) -> Int64Array:
        silo = Silo(silo=name, keys=keys[name], **poll)
        total = silo.exchange(vectors[name], epsilon, 1)
        silo.end("a draw")
        return total

    with ThreadPoolExecutor(len(SILOS) + len(SERVERS)) as pool:
        for name in SERVERS:
            pool.submit(Summing(server=name, keys=keys[name], receipts=str(folder / "receipts" / name), **poll).serve)
        sums = list(pool.map(ask, SILOS))
    return sums[0], agreement, keys


def seen_by(server: str, agreement: Agreement, keys: Mapping[str, Keys]) -> tuple[dict[str, Share], Share]:
    """What a server can read in the first round: each silo's share for it, and its own share of the noise."""
    [own] = [member for member in agreement.servers if member.name == server]
    where: dict[str, Any] = {"agreement": agreement, "turn": 0}
    shares = {}
    for silo in agreement.silos:
        content = Path(own.folder, "0", f"share-of-{silo.name}").read_bytes()
        header, payload = read(content, sender=silo, kinds=("share",), recipient=server, **where)
        bound = {"context": context(header), "shape": header.shape, "sender": silo.name}
        _, shares[silo.name] = decrypt(payload, keys=keys[server], **bound)
    content = Path(own.folder, "0", "sum").read_bytes()
    header, payload = read(content, sender=own, kinds=("sum",), recipient=EVERYBODY, **where)
    return shares, vector(payload, shape=header.shape, sender=server) - add(list(shares.values()))


if __name__ == "__main__":
    play(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
