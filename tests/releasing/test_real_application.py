"""The protocol with the real application: killed at its own steps, raced, and run on bad data.

Spark counts what needs it, a fit and keys that are discovered; all else is counted by the engine that starts sooner.
"""

from __future__ import annotations

import hashlib
import json
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_operators.budget.mechanism_events import MechanismEvent, charged_events
from dp_operators.release_check import check_release
from dp_operators.releasing import LocalRunner, Published, ReleaseFailed
from spark_jobs.contract import Release
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.release_lab import Lab, make_request

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

SPARK = "local[2]"
BEFORE_THE_DRAW = ("after_count", "before_store_draw")
AFTER_THE_DRAW = (
    # one that dies before these has left a draw, which the attempt itself goes on with: see test_crashes
    "before_results",
    "after_results",
    "before_draft_manifest",
    "after_draft_manifest",
)

NAMING = ("charge", "published", "what the application prints")
"""How the public lines begin that name a charge, a folder or a file."""


def write_table(folder: Path, rows: pd.DataFrame) -> str:
    (folder / "v1").mkdir(parents=True)
    rows.to_parquet(folder / "v1" / "part-0.parquet")
    return str(folder)


def good_rows() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    visit = generator.random(3000) < 0.5
    return pd.DataFrame({"visit": visit.astype(int), "score": np.clip(generator.normal(0.4 + 0.2 * visit, 0.2), 0, 1)})


def open_account(lab: Lab, table: str) -> None:
    lab.output = lab.open_account("visits", table, epsilon=100)


def attempt(
    lab: Lab, table: str, *, failpoint: str = "", key: str = "", master: str = "embedded", **changes: Any
) -> Published:
    snapshot = {"path": table, "snapshot": {"path_version": "v1"}}
    request = make_request(lab.output, account="visits", table=snapshot, **changes)
    runner = LocalRunner(
        master=master,
        environment={VARIABLE: failpoint} if failpoint else {},
        private_dir=Path(lab.output).parent / "private",
    )
    options = {"key": key} if key else {}
    return lab.release(request=request, runner=runner, check=check_release, **options)


def judge(lab: Lab) -> None:
    """One charge, one draw, one visible manifest, and it is the one that was paid for."""
    [charge] = lab.ledger().history("visits")
    [visible] = Path(lab.output).glob("*/release.json")
    assert charge.state == "committed"
    assert hashlib.sha256(visible.read_bytes()).hexdigest() == charge.manifest_sha256
    assert len(draws(lab)) == 1
    assert charge.drawn_events
    spent = tuple(
        MechanismEvent(mechanism=each["mechanism"], epsilon=Decimal(each["epsilon"])) for each in charge.drawn_events
    )
    assert charged_events(charge) == spent
    assert lab.ledger().remaining("visits").epsilon == 99
    assert lab.ledger().verify()


def draws(lab: Lab) -> list[bytes]:
    return [path.read_bytes() for path in Path(lab.output).rglob("draw.json")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE_THE_DRAW[1:], AFTER_THE_DRAW[1::2]),
        pytest.param(BEFORE_THE_DRAW, AFTER_THE_DRAW, marks=pytest.mark.soak),
    ],
    ids=["every second step", "each step"],
)
def test_one_release_killed_at_steps_of_the_application_is_drawn_and_published_once(
    lab: Lab, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    table = write_table(Path(lab.output).parent / "visits", good_rows())
    open_account(lab, table)
    for failpoint in before:
        with pytest.raises(ReleaseFailed):
            attempt(lab, table, failpoint=failpoint)
        assert draws(lab) == []
    seen = set()
    for failpoint in after[:-1]:
        with pytest.raises(ReleaseFailed):
            attempt(lab, table, failpoint=failpoint)
        seen.update(draws(lab))
    # killed after its last write, the application has left a whole draft: the attempt goes on with it
    published = attempt(lab, table, failpoint=after[-1])
    seen.update(draws(lab))
    assert len(seen) == 1
    assert not published.adopted
    judge(lab)


def test_a_fit_killed_between_its_passes_starts_again_for_the_same_charge(lab: Lab) -> None:
    table = write_table(Path(lab.output).parent / "visits", good_rows())
    open_account(lab, table)
    kind = {"kind": "logistic_fit", "features": {"score": [0, 1]}}
    fit: dict[str, Any] = {"model": None, "diagnostics": [kind], "master": SPARK}
    for failpoint in ("before_pass", "before_pass:after:1"):
        with pytest.raises(ReleaseFailed):
            attempt(lab, table, failpoint=failpoint, **fit)
        assert draws(lab) == []
    published = attempt(lab, table, **fit)
    assert Release.from_json((Path(published.uri) / "release.json").read_bytes()).results["logistic_fit"]["model"]
    judge(lab)


def discovered(lab: Lab) -> str:
    """A table of persons and their pages, of an account that allows for a delta; one person alone has a page."""
    random = np.random.default_rng(4)
    pages = [*(f"/{number}" for number in random.zipf(1.7, 2999)), "/secret"]
    rows = pd.DataFrame({"person": [f"p{place}" for place in range(3000)], "page": pages})
    table = write_table(Path(lab.output).parent / "pages", rows)
    unit = {"column": "person", "max_rows": 1}
    lab.output = lab.open_account(
        "visits", table, epsilon=100, composition="approximate", delta="0.5", unit=unit,
        columns={"person": "string", "page": "string"},
    )  # fmt: skip
    return table


def test_keys_are_discovered_by_one_draw_however_often_their_pass_is_killed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the pass nothing is drawn; a draw that is stored is the one that is published and paid for."""
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    table = discovered(lab)
    entry = {"kind": "aggregates", "by": [{"column": "page", "keys": "discover", "min_units": 5}]}
    asked: dict[str, Any] = {
        "model": None, "label": None, "unit": {"column": "person", "max_rows": 1}, "diagnostics": [entry],
        "budget": {"epsilon": "1", "delta": "1e-6"}, "master": SPARK,
    }  # fmt: skip
    for failpoint in ("before_pass", "after_pass", "before_store_draw"):
        with pytest.raises(ReleaseFailed):
            attempt(lab, table, failpoint=failpoint, **asked)
        assert draws(lab) == []
        [charge] = lab.ledger().history("visits")
        assert (charge.state, charge.drawn_events) == ("reserved", None)
    with pytest.raises(ReleaseFailed):
        attempt(lab, table, failpoint="before_results", **asked)
    [drawn] = draws(lab)
    published = attempt(lab, table, **asked)
    assert draws(lab) == [drawn]
    [charge] = lab.ledger().history("visits")
    manifest = (Path(published.uri) / "release.json").read_bytes()
    assert (charge.state, charge.manifest_sha256) == ("committed", hashlib.sha256(manifest).hexdigest())
    assert (charge.cost.epsilon, charge.cost.delta) == (1, Decimal("1e-6"))
    assert lab.ledger().remaining("visits", kind="approximate").epsilon == 99
    assert lab.ledger().verify()
    keys = Release.from_json(manifest).results["aggregates"]["keys"][0]
    assert "/1" in keys
    assert b"/secret" not in b"".join(file.read_bytes() for file in Path(lab.output).rglob("*") if file.is_file())


def test_two_attempts_at_once_end_with_one_draw_and_one_manifest(lab: Lab) -> None:
    table = write_table(Path(lab.output).parent / "visits", good_rows())
    open_account(lab, table)
    found: list[Published] = []
    both = [threading.Thread(target=lambda: found.append(attempt(lab, table))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(found) == 2
    assert {published.manifest_sha256 for published in found} == {found[0].manifest_sha256}
    judge(lab)


NULLED = ("auc", "auc_interval", "auc_population_interval", "auc_privacy_share")
"""Figures that are no list, hence null themselves where the curve is undefined, which noisy class sizes decide."""


def shape(published: Published) -> dict[str, Any]:
    """All of a release that must not depend on its rows: names, lengths, types, sentences."""
    folder = Path(published.uri)
    release = Release.from_json((folder / "release.json").read_bytes())
    [curve] = release.results.values()
    return {
        "files": sorted(path.name for path in folder.iterdir() if path.is_file()),
        "manifest": [(entry.name, entry.media_type) for entry in release.files],
        "rules": release.rules,
        "statement": release.statement.replace(f"account {release.request['account']}", "the account"),
        "cost": release.cost,
        "curve": {
            name: len(value) if isinstance(value, list) else type(value).__name__
            for name, value in curve.items()
            if name not in NULLED
        },
        "table": (pd.read_parquet(folder / "roc_curve.parquet").shape),
    }


def test_bad_rows_give_a_release_of_the_same_shape_by_the_same_steps(lab: Lab) -> None:
    """Labels of other values, scores of 7, NaN and minus infinity, nulls: as ordinary as good rows from outside."""
    bad = pd.DataFrame(
        {
            "visit": [1, 0, 5, -1, None, 1, 0, None],
            "score": [7.0, float("-inf"), 0.5, 0.5, 0.5, None, float("nan"), None],
        }
    )
    shapes, said, curves = [], [], []
    for name, rows in {"good": good_rows(), "bad": bad, "empty": good_rows().head(0)}.items():
        table = write_table(Path(lab.output).parent / name, rows)
        output = lab.open_account(name, table)
        lines: list[str] = []
        runner = LocalRunner(master="embedded", private_dir=Path(lab.output).parent / "private")
        request = make_request(
            output, account=name, table={"path": table, "snapshot": {"path_version": "v1"}}, title="Visits"
        )
        published = lab.release(request=request, runner=runner, check=check_release, key=name, progress=lines.append)
        shapes.append(shape(published))
        manifest = Release.from_json((Path(published.uri) / "release.json").read_bytes())
        curves.append(manifest.results["roc_curve"])
        # lines such as "starting ... 10 s" say how long something takes
        said.append([line for line in lines if not line.startswith(NAMING) and " ... " not in line])
    assert shapes[0] == shapes[1] == shapes[2]
    assert said[0] == said[1] == said[2]
    assert json.dumps(said).count("drawing") == 3
    assert [curve["status"] for curve in curves] == ["ok", "undefined", "undefined"]
    nulls = [{curve[name] is None for name in NULLED} for curve in curves]
    assert nulls == [{False}, {True}, {True}]
