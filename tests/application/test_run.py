from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from spark_jobs.contract.tombstone import Tombstone

from spark_jobs.application import run
from spark_jobs.application.announcing import Announcer
from spark_jobs.application.draw import NotThisDraw
from spark_jobs.application.run import Charged, measure, run_charged
from spark_jobs.contract import Release
from spark_jobs.contract.layout import ReleaseLayout
from spark_jobs.contract.stores import LocalStore
from spark_jobs.mechanisms.noise import SecureNoise
from tests.application.test_draw import counts, request

CHARGED = Charged(key="visits/roc", charge_id="c1")


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An attempt at one charged release, with counts of its own instead of Spark's; says how often it drew."""
    draws: list[int] = []

    def draw(asked: Any, *, charge_id: str, noise: Any, **others: Any) -> Any:
        draws.append(1)
        return measure(asked, counts(), charge_id=charge_id, noise=noise)

    monkeypatch.setattr(run, "make_draw", draw)

    def again(store: LocalStore | None = None) -> int:
        announcer = Announcer((tmp_path / "said.txt").open("a"), "word")
        run_charged(
            request(), CHARGED, output=str(tmp_path / "out"), store=store or LocalStore(), noise=SecureNoise(),
            master=None, announcer=announcer,
        )  # fmt: skip
        return len(draws)

    again.layout = ReleaseLayout.of(str(tmp_path / "out"), CHARGED.key, CHARGED.charge_id)  # type: ignore[attr-defined]
    return again


def manifest(layout: ReleaseLayout) -> Release:
    return Release.from_json(Path(layout.draft_manifest).read_bytes())


def test_a_second_attempt_adopts_the_draw_and_makes_the_same_bytes(attempt: Any) -> None:
    assert attempt() == 1
    before = {path: path.read_bytes() for path in Path(attempt.layout.draft).rglob("*") if path.is_file()}
    for path in before:
        if path.name != "draw.json":
            path.unlink()
    assert attempt() == 1
    assert {path: path.read_bytes() for path in before} == before


def test_the_draw_of_a_faster_attempt_is_taken_over(attempt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store holds nothing when this attempt looks, and another's draw when it wants to store its own."""
    faster = measure(request(), counts(), charge_id="c1", noise=SecureNoise()).to_json()

    class Raced(LocalStore):
        def create(self, uri: str, content: bytes) -> bool:
            if uri == attempt.layout.draw:
                super().create(uri, faster)
            return super().create(uri, content)

    assert attempt(Raced()) == 1
    assert Path(attempt.layout.draw).read_bytes() == faster


def test_a_tombstone_stops_an_attempt_before_and_after_it_drew(attempt: Any) -> None:
    stone = Tombstone.of("c1", reason="given back").to_json()

    class Buried(LocalStore):
        def create(self, uri: str, content: bytes) -> bool:
            if uri == attempt.layout.draw:
                super().create(uri, stone)
            return super().create(uri, content)

    for store in (Buried(), LocalStore()):
        with pytest.raises(NotThisDraw):
            attempt(store)
    assert not Path(attempt.layout.draft_manifest).exists()


def test_the_manifest_names_the_bytes_that_lie_there(attempt: Any) -> None:
    """An attempt with other versions of the libraries wrote one of the files first."""
    LocalStore().create(attempt.layout.draft_file("roc_curve.svg"), b"<svg>drawn by another version</svg>")
    attempt()
    for entry in manifest(attempt.layout).files:
        content = Path(attempt.layout.draft_file(entry.name)).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (entry.sha256, entry.size)
