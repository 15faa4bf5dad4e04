from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.application import run
from spark_jobs.application.draw import NotThisDraw
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import Charged, measure, run_charged
from spark_jobs.contract import InvalidRequest, Release
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.contract.store.sealing import Seal, SealBroken, sha256
from spark_jobs.mechanisms.noise import SecureNoise
from tests.application.test_draw import counts, request
from tests.support.publications import account

SEAL = Seal(secret=bytes(range(32)), charge_id="c1", request_sha256=request().sha256)
CHARGED = Charged(key="visits/roc", seal=SEAL, run=1)


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An attempt at one charged release, with counts of its own instead of Spark's; says how often it drew."""
    draws: list[int] = []

    def draw(asked: Any, *, charge_id: str, noise: Any, **others: Any) -> Any:
        draws.append(1)
        return measure(asked, counts(), charge_id=charge_id, noise=noise)

    monkeypatch.setattr(run, "make_draw", draw)

    def again(store: LocalStore | None = None, asked: Any = None, **charged: Any) -> int:
        announcer = Announcer((tmp_path / "said.txt").open("a"), "word")
        LocalStore().create(again.layout.account, account().sealed(SEAL))  # type: ignore[attr-defined]
        run_charged(
            asked or request(), replace(CHARGED, **charged), output=str(tmp_path / "out"), store=store or LocalStore(),
            noise=SecureNoise(), master=None, announcer=announcer,
        )  # fmt: skip
        return len(draws)

    again.layout = ReleaseLayout.of(str(tmp_path / "out"), CHARGED.key, SEAL.charge_id)  # type: ignore[attr-defined]
    return again


def draft_of(layout: ReleaseLayout) -> DraftFolder:
    draw = sha256(Path(layout.draw).read_bytes())
    return DraftFolder(store=LocalStore(), layout=layout, seal=SEAL, draw_sha256=draw)


def contents(layout: ReleaseLayout) -> dict[str, bytes | None]:
    """What the draft of the draw that lies there says, opened."""
    folder = draft_of(layout)
    manifest = folder.read_manifest() or b""
    return {"release.json": manifest} | {
        file.name: folder.read_file(file.name) for file in Release.from_json(manifest).files
    }


def test_a_second_attempt_adopts_the_draw_and_makes_the_same_bytes(attempt: Any) -> None:
    assert attempt() == 1
    before = contents(attempt.layout)
    for path in Path(attempt.layout.draft).rglob("*"):
        if path.is_file() and path.name != "draw.json":
            path.unlink()
    assert attempt() == 1
    assert contents(attempt.layout) == before


def test_nothing_of_a_draft_can_be_read_without_the_secret(attempt: Any) -> None:
    """Each part is so long that random bytes do not hold it by chance."""
    attempt()
    readable = [*contents(attempt.layout).values(), SEAL.open("draw.json", Path(attempt.layout.draw).read_bytes())]
    lying = [path.read_bytes() for path in Path(attempt.layout.draft).rglob("*") if path.is_file()]
    for part in (b"differentially private", b"\x89PNG\r\n\x1a\n", b"<svg xmlns", b"measurements"):
        assert not any(part in content for content in lying)
        assert any(part in (content or b"") for content in readable), part


def test_the_draw_of_a_faster_attempt_is_taken_over(attempt: Any) -> None:
    """The store holds nothing when this attempt looks, and another's draw when it wants to store its own."""
    faster = SEAL.close("draw.json", measure(request(), counts(), charge_id="c1", noise=SecureNoise()).to_json())

    class Raced(LocalStore):
        def create(self, uri: str, content: bytes) -> bool:
            if uri == attempt.layout.draw:
                super().create(uri, faster)
            return super().create(uri, content)

    assert attempt(Raced()) == 1
    assert Path(attempt.layout.draw).read_bytes() == faster


def test_a_planted_draw_is_not_adopted(attempt: Any) -> None:
    """It names the right charge and request, but whoever wrote it did not have the secret."""
    planted = measure(request(), counts(), charge_id="c1", noise=SecureNoise()).to_json()
    LocalStore().create(attempt.layout.draw, planted)
    with pytest.raises(SealBroken):
        attempt()
    assert not Path(attempt.layout.draft_manifest).exists()


@pytest.mark.parametrize("lies_there", [True, False])
def test_where_the_ledger_knows_a_draw_no_other_is_made_or_taken(attempt: Any, lies_there: bool) -> None:
    if lies_there:
        attempt()
    with pytest.raises(NotThisDraw):
        attempt(draw_sha256="0" * 64)
    assert Path(attempt.layout.draw).exists() is lies_there


def test_a_request_that_was_swapped_is_refused_before_anything_is_read(attempt: Any) -> None:
    with pytest.raises(InvalidRequest, match="must be the request that was charged"):
        attempt(asked=request(budget={"epsilon": "1000000"}))
    assert not Path(attempt.layout.draw).exists()


@pytest.mark.parametrize("figures", [b"", b'{"figures": "AAAA"}', account().model_dump_json().encode()])
def test_account_figures_that_were_swapped_are_refused_before_anything_is_read(attempt: Any, figures: bytes) -> None:
    LocalStore().create(attempt.layout.account, figures)
    with pytest.raises(InvalidRequest, match=r"account\.json: must be the file"):
        attempt()
    assert not Path(attempt.layout.draw).exists()


@pytest.mark.slow
def test_the_reports_figures_are_those_of_the_draw(attempt: Any) -> None:
    attempt()
    before = contents(attempt.layout)["report.html"]
    for name in ("release.json", "account.json", "files/report.html"):
        (Path(attempt.layout.draft) / name).unlink()
    Path(attempt.layout.account).write_bytes(account(spent_before={"epsilon": "9"}).sealed(SEAL))
    attempt()
    assert contents(attempt.layout)["report.html"] == before


def test_the_manifest_names_the_bytes_that_lie_there(attempt: Any) -> None:
    """An attempt with other versions of the libraries wrote one of the files first."""
    attempt()
    Path(attempt.layout.draft_manifest).unlink()
    Path(attempt.layout.draft_file("roc_curve.svg")).unlink()
    draft_of(attempt.layout).create_file("roc_curve.svg", b"<svg>drawn by another version</svg>")
    attempt()
    found = contents(attempt.layout)
    for entry in Release.from_json(found["release.json"] or b"").files:
        content = found[entry.name] or b""
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (entry.sha256, entry.size)
