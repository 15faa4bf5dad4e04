"""What a stream reveals of a person whose rows come late, vanish and return between the versions that its runs read."""

import io
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.statistics.unit_use import UnitUse
from tests.suites.audit import ADDED, ExactAudit, Fault
from tests.support.noises import Recording
from tests.support.person_rows import VersionRunner, of_versions
from tests.support.stream_lab import StreamLab

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
FACT, CAPACITY = "units that are declared", "units beyond a capacity"
MOST = 3


class Trusted(Recording):
    """Recorded noise that the committer takes for private, so that it releases what is drawn with it."""

    guarantee = PRIVATE


def forget_use(monkeypatch):
    """The state of a stream comes back without what was used of each unit."""
    monkeypatch.setattr(UnitUse, "from_records", classmethod(lambda cls, records: cls.none(len(records))))


def pay_once(monkeypatch):
    """A capacity is paid for as if no absence gave a place to another."""
    monkeypatch.setattr(StreamRequest, "rows_paid", property(lambda request: request.unit.max_rows))


def play(versions, noise, relation, *, capacity):
    """Runs of one stream, each of which reads a later version; the noisy counts that were readable."""
    changes = of_versions(neighbours=relation.value, **({"capacity": capacity} if capacity else {}))
    with tempfile.TemporaryDirectory() as folder:
        lab = StreamLab(Path(folder), changes, facts={"units": 9, "version_order": "natural"})
        for number, name in enumerate(versions):
            table = {**lab.request.table.model_dump(mode="json", exclude_none=True), "snapshot": {"path_version": name}}
            request = StreamRequest.parse({**lab.request.to_dict(), "table": table})
            runner = VersionRunner(counts=lab.counts, versions=versions, noise=noise)
            lab.advance(2 * number + 2, runner=runner, request=request)
        tables = (pq.read_table(io.BytesIO(path.read_bytes())) for path in lab.root.glob("steps/*.parquet"))
        return {tuple(table["noisy"].to_pylist()) for table in tables}


def histories(mechanism, relation):
    """Versions in which a person's rows are late, deleted and back, and the same without her, or with other rows."""
    hers = [((0, "ada"), (1, "ada")), ((0, "ada"), (2, "ada"), (3, "ada")), ((4, "ada"),), ((6, "ada"), (7, "ada"))]
    others = [((1, "bob"),) * 2, ((2, "bob"),) * 2, ((4, "cleo"), (5, "cleo")), ((6, "bob"), (7, "cleo"))]
    if mechanism == FACT:
        others = [tuple(row for row in rows if row[1] == "cleo") for rows in others]
    instead = [(), (), ((4, "dan"), (5, "dan")), ((6, "dan"), (7, "dan"))]
    names = [f"v{number}" for number in range(4)]
    after = [()] * 4 if relation is ADDED else instead
    return tuple(
        {name: (*rest, *own) for name, rest, own in zip(names, others, rows, strict=True)} for rows in (hers, after)
    )


class TestStreamOfPersons(ExactAudit):
    """The loss of all counts of a stream for all rows of a person, in every version that is read."""

    mechanisms = (FACT, CAPACITY)
    claimed, at_least = EPSILON, 0.99
    kept, verified = "first", True
    faults = {
        "what was used is forgotten": Fault(patch=forget_use, mechanisms={FACT}),
        "a capacity is paid for once": Fault(patch=pay_once, mechanisms={CAPACITY}, relations=[ADDED]),
    }

    def loss(self, mechanism, relation, **planted):
        table, neighbour = histories(mechanism, relation)
        capacity = 1 if mechanism == CAPACITY else None
        first = Trusted()
        readable = play(table, first, relation, capacity=capacity)
        second = Trusted(answers=first.given)
        assert play(neighbour, second, relation, capacity=capacity) == readable
        return sum(
            (
                one.epsilon * int(np.abs(one.values - two.values).sum()) / one.l1_sensitivity
                for one, two in zip(first.asked, second.asked, strict=True)
            ),
            Fraction(0),
        )
