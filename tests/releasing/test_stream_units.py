"""A stream uses at most so many rows of a person as are paid for, whichever versions of its table its runs read."""

from __future__ import annotations

import io
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.releasing import ReleaseFailed
from spark_jobs.arrays import Int64Array
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.stream_objects import StreamSegment
from spark_jobs.contract.stream_request import StreamRequest
from tests.support.noises import Still
from tests.support.person_rows import PERSONS, Rows, VersionRunner, of_versions
from tests.support.stream_lab import KEYS, StreamLab, judge_stream

FACTS = {"units": 20, "version_order": "natural"}
MOST, STEPS = 3, 8


class Trusted(Still):
    """No noise, which the committer takes for private noise: what is released is what was counted."""

    guarantee = PRIVATE


def lab_of(folder: Path, *, facts: dict[str, Any] | None = None, **changes: Any) -> StreamLab:
    return StreamLab(folder, of_versions(**changes), facts=FACTS if facts is None else facts)


def runner_of(lab: StreamLab, versions: dict[str, Rows], **changes: Any) -> VersionRunner:
    return VersionRunner(counts=lab.counts, versions=versions, **{"noise": Trusted(), **changes})


def at_version(lab: StreamLab, name: str) -> StreamRequest:
    table = {**lab.request.table.model_dump(mode="json", exclude_none=True), "snapshot": {"path_version": name}}
    return StreamRequest.parse({**lab.request.to_dict(), "table": table})


def given(lab: StreamLab) -> Int64Array:
    """What each person gave, by the counts that were released."""
    files = sorted((lab.root / "steps").glob("*.parquet"))
    noisy = [count for path in files for count in pq.read_table(io.BytesIO(path.read_bytes()))["noisy"].to_pylist()]
    return np.array(noisy, dtype=np.int64).reshape(-1, len(PERSONS)).sum(axis=0)


def wild_versions(seed: int) -> dict[str, Rows]:
    """Versions of one table in which rows are deleted, return, and are added late, in random order."""
    chance, rows = random.Random(seed), list[tuple[int, str]]()
    versions = {}
    for number in range(1, 2 * STEPS):
        gone = [row for row in rows if chance.random() < 0.4]
        rows = [row for row in rows if row not in gone]
        rows += [(chance.randrange(STEPS), chance.choice(PERSONS)) for _ in range(chance.randrange(12))]
        rows += chance.sample(gone, len(gone) // 2)
        versions[f"v{number}"] = tuple(rows)
    return versions


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=[pytest.mark.verify])])
def test_no_person_gives_more_than_is_paid_for(tmp_path: Path, seed: int) -> None:
    """Runs read later and later versions, are repeated with earlier ones, and die."""
    lab, chance, versions = lab_of(tmp_path), random.Random(seed), wild_versions(seed)
    for hours in range(1, STEPS + 1):
        name = f"v{2 * hours - chance.randrange(2) if hours < STEPS else 2 * STEPS - 1}"
        point = chance.choice(["", "", "before_store_steps", "after_store_steps"])
        runner = runner_of(lab, versions, failpoint=point)
        with suppress(ReleaseFailed):
            lab.advance(hours, runner=runner, request=at_version(lab, name))
        # a repetition with a version that comes earlier: it is refused, or finds its steps released
        with suppress(InvalidRequest):
            lab.advance(hours, runner=runner_of(lab, versions), request=at_version(lab, "v1"))
        lab.advance(hours, runner=runner_of(lab, versions), request=at_version(lab, name))
    assert given(lab).max() == MOST, "somebody came as often as is paid for, or oftener"
    judge_stream(lab, steps=STEPS)


def test_rows_that_are_erased_make_no_more_of_a_person_count(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    before, after = ((at, "ada") for at in range(4)), ((at, "ada") for at in range(4, 8))
    versions = {"v1": tuple(before), "v2": (), "v3": tuple(after)}
    for hours, name in ((4, "v1"), (5, "v2"), (8, "v3")):
        lab.advance(hours, runner=runner_of(lab, versions), request=at_version(lab, name))
    assert given(lab).tolist() == [MOST, 0, 0, 0, 0]


def test_every_object_has_the_use_after_its_own_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies between two of its objects is continued with what the first of them used."""
    monkeypatch.setattr("spark_jobs.application.streams.chain.SEGMENT_CELLS", 2 * len(PERSONS))
    lab = lab_of(tmp_path)
    versions = {"v1": (*((step, "ada") for step in range(STEPS)), (0, "bob"), (7, "bob"))}
    dying = runner_of(lab, versions, failpoint="after_store_steps")
    lab.advance(6, runner=dying)
    lab.advance(8, runner=runner_of(lab, versions))
    assert given(lab).tolist() == [MOST, 2, 0, 0, 0]
    assert [int(path.name) for path in lab.segments()] == [0, 2, 4, 6]
    judge_stream(lab, steps=8)


def test_a_run_that_goes_back_is_refused_and_a_repetition_names_what_was_recorded(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    versions: dict[str, Rows] = dict.fromkeys(("v9", "v10", "v11"), ((1, "ada"),))
    said: list[str] = []
    lab.advance(2, runner=runner_of(lab, versions), request=at_version(lab, "v10"), progress=said.append)
    assert "released steps 0 to 1 of 8 from version v10" in said
    runner = runner_of(lab, versions)
    with pytest.raises(InvalidRequest, match="table.snapshot: got 'v9'; must not be earlier than v10, which the"):
        lab.advance(4, runner=runner, request=at_version(lab, "v9"))
    assert runner.read == []
    again: list[str] = []
    lab.advance(2, request=at_version(lab, "v11"), progress=again.append)
    assert again[-1] == "no step is due: 2 of 8 are released, the last from version v10"
    lab.advance(4, runner=runner, request=at_version(lab, "v11"))
    assert runner.read == [("v11", 2, 4)]
    assert [one["snapshot"] for one in lab.published()] == [{"path_version": "v10"}, {"path_version": "v11"}]
    judge_stream(lab, steps=4)


def test_versions_in_a_listed_order(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, facts={"units": 5, "version_order": ["old", "new"]})
    versions: dict[str, Rows] = dict.fromkeys(("old", "new", "newer"), ((1, "ada"),))
    lab.advance(2, runner=runner_of(lab, versions), request=at_version(lab, "new"))
    with pytest.raises(InvalidRequest, match="must not be earlier than new"):
        lab.advance(4, runner=runner_of(lab, versions), request=at_version(lab, "old"))
    with pytest.raises(InvalidRequest, match="'newer'; must be one of the versions that the administrator has listed"):
        lab.advance(4, runner=runner_of(lab, versions), request=at_version(lab, "newer"))
    ledger = lab.ledger()
    binding = ledger.account("people").bindings[lab.request.table.identity]
    grown = TableBinding.parse({**binding, "version_order": ["old", "new", "newer"]})
    ledger.bind_table("people", grown, actor="dpo", reason="another version")
    ledger.close()
    assert lab.advance(4, runner=runner_of(lab, versions), request=at_version(lab, "newer")).steps == 4


def test_another_salt_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    versions: dict[str, Rows] = {"v1": ((1, "ada"), (3, "ada"))}
    lab.advance(2, runner=runner_of(lab, versions))
    other = runner_of(lab, versions, salt=b"another salt of many bytes")
    with pytest.raises(InvalidRequest, match="DP_DIAGNOSTICS_SALT: must be the salt with which the stream began"):
        lab.advance(4, runner=other)
    assert other.read == []
    assert lab.advance(4, runner=runner_of(lab, versions)).steps == 4


def test_the_store_shows_the_same_whoever_came(tmp_path: Path) -> None:
    shown = []
    for name, rows in (
        ("none", ()),
        ("one", ((0, "ada"),)),
        ("all", tuple((at % 4, PERSONS[at % 5]) for at in range(60))),
    ):
        (tmp_path / name).mkdir()
        lab = lab_of(tmp_path / name)
        lab.advance(2, runner=runner_of(lab, {"v1": rows}))
        lab.advance(4, runner=runner_of(lab, {"v1": rows}))
        shown.append([(path.name, path.stat().st_size) for path in lab.segments()])
    assert shown[0] == shown[1] == shown[2]


def test_nothing_of_a_person_is_readable_outside_the_application(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.advance(2, runner=runner_of(lab, {"v1": ((0, "ada"), (1, "ada"))}))
    [path] = lab.segments()
    segment = StreamSegment.parse(path.read_bytes(), key="")
    assert segment.key_name in KEYS.keys
    assert len(segment.state) > 20 * 34


@pytest.mark.parametrize(
    ("neighbours", "capacity", "per_row"),
    [("add_remove", None, "0.5"), ("add_remove", 9, "0.25"), ("replace_one", 9, "0.5"), ("replace_one", None, "0.5")],
)
def test_a_capacity_is_paid_for_twice_where_an_absence_gives_a_place_to_another(
    tmp_path: Path, neighbours: str, capacity: int | None, per_row: str
) -> None:
    changes = {"capacity": capacity} if capacity else {}
    unit = {"column": "person", "max_rows": 2}
    lab = lab_of(tmp_path, neighbours=neighbours, unit=unit, **changes)
    assert lab.advance(2, runner=runner_of(lab, {"v1": ((0, "ada"),)})).cost.epsilon == 1
    assert str(lab.published()[0]["first"]) == "0"
    described = (lab.root / "stream.json").read_text()
    assert f'"epsilon_per_row": "{per_row}"' in described
    assert ("has room for 9 values of 'person'" in described) == (capacity is not None)
    assert ("never has more than 20 values of person" in described) == (capacity is None)
    judge_stream(lab, steps=2)


def test_a_stream_of_persons_needs_places_and_a_rule_for_versions(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, facts={"version_order": "natural", "append_only": True})
    with pytest.raises(InvalidRequest, match="capacity: is required for a stream whose unit is person"):
        lab.advance(2)
    (tmp_path / "other").mkdir()
    unordered = lab_of(tmp_path / "other", facts={"units": 5})
    with pytest.raises(InvalidRequest, match="must be a version of a table whose versions have a declared"):
        unordered.advance(2)
    assert unordered.ledger().history("people") == ()
