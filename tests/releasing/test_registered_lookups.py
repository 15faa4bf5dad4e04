"""Public lookups that requests name: filled in from the ledger, checked against it, and equal on both engines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from dp_operators import cli
from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.releasing import has_references, with_references
from dp_operators.releasing.registered_lookups import require_registered
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.lookups import MAX_ENTRIES
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from tests.support.kinds import EXAMPLES
from tests.support.ledgers import new_ledger

LEVELS = ["north", "south", "east"]
COLUMNS = "zip string, plan int in (1, 2), spend double between 0 and 200"
SELECT = (
    "SELECT r.region, COUNT(*) AS n, AVG(spend) AS mean FROM customers VERSION AS OF 'v1' AS c "
    "JOIN regions AS r ON c.zip = r.zip GROUP BY r.region ORDER BY 1"
)


def customers() -> pd.DataFrame:
    random = np.random.default_rng(6)
    zips = random.choice([*(f"{number:05}" for number in range(1000, 1400)), "99999", "", None], 8000)
    return pd.DataFrame(
        {"zip": zips, "plan": random.integers(1, 3, 8000).astype("int32"), "spend": random.gamma(2, 40, 8000)}
    )


def regions(folder: Path, *, name: str = "regions.csv", keys: int = 400) -> Path:
    file = folder / name
    rows = [f"{1000 + number:05},{LEVELS[number % 3]}" for number in range(keys)]
    file.write_text("zip,region\n" + "\n".join(rows) + "\n")
    return file


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivacyLedger:
    """Of the account customers, whose table has a zip code in each row."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    monkeypatch.setenv("DP_LEDGER_URL", url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    made = new_ledger(tmp_path / "ledger.db")
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    customers().to_parquet(tmp_path / "lake" / "v1" / "part.parquet")
    places = ["--table", f"{tmp_path}/lake", "--output", f"{tmp_path}/releases"]
    opened = ["open", "customers", "--epsilon", "1e9", "--columns", COLUMNS, "--yes", *places]
    assert run(cli.app, opened) == 0
    assert run(cli.app, ["lookup", "customers", "regions", str(regions(tmp_path)), "--actor", "dpo"]) == 0
    return made


def fields(lookup: Any, **changes: Any) -> dict[str, Any]:
    return {
        "account": "customers",
        "table": {"path": "/lake", "snapshot": {"path_version": "v1"}},
        "diagnostics": [{"kind": "aggregates", "by": [{"column": "zip", "lookup": lookup}]}],
        "budget": {"epsilon": "1"},
        **changes,
    }


def test_a_request_names_a_lookup_and_holds_its_entries(ledger: PrivacyLedger) -> None:
    registered = ledger.lookup("customers", "regions").lookup
    named = fields("regions")
    assert has_references(named)
    filled = with_references(named, ledger)
    assert not has_references(filled)
    request = ReleaseRequest.parse(filled)
    assert request.diagnostics[0].by[0].lookup == registered
    require_registered(request, ledger)
    full = {"name": "regions", "key": "zip", "value": "region", "sha256": registered.sha256}
    assert ReleaseRequest.parse(with_references(fields(full), ledger)).sha256 == request.sha256


@pytest.mark.parametrize(
    ("lookup", "changes", "line"),
    [
        ("nowhere", {}, "lookup: got 'nowhere'; must be a public lookup that is registered for account customers"),
        ("region", {}, "did you mean 'regions'?"),
        ("plans", {}, "got 'plans'; must be a public lookup that is registered"),
        ({"name": "regions", "sha256": "0" * 64}, {}, "lookup.sha256: got"),
        (
            {"name": "regions", "value": "land"},
            {},
            "lookup.value: got 'land'; must be the same as in the",
        ),
        (
            {"name": "regions", "key": "region"},
            {},
            "lookup.key: got 'region'; must be the same as in the",
        ),
        ({"name": "regions", "path": "/x.csv"}, {}, "must be the name of a registered lookup"),
        (3, {}, "must be the name of a registered lookup"),
        ("regions", {"account": None}, "account: is required"),
    ],
)
def test_what_is_no_lookup_of_the_account_is_refused(
    ledger: PrivacyLedger, lookup: Any, changes: dict[str, Any], line: str
) -> None:
    ledger.register_keys("customers", "plans", [1, 2], actor="dpo")
    head = ledger.head()
    with pytest.raises(InvalidRequest) as refused:
        with_references(fields(lookup, **changes), ledger)
    assert line in str(refused.value)
    assert ledger.head() == head


def test_entries_that_nobody_registered_are_not_believed(ledger: PrivacyLedger) -> None:
    entries = [list(entry) for entry in ledger.lookup("customers", "regions").lookup.entries]
    for changed, name, line in (
        (
            [*entries[:-1], [entries[-1][0], "secret"]],
            "regions",
            "must have the same entries as the lookup",
        ),
        (entries, "others", "must be a public lookup that is registered for account customers"),
    ):
        given = {"name": name, "key": "zip", "value": "region", "entries": changed}
        request = ReleaseRequest.parse(with_references(fields(given), ledger))
        with pytest.raises(InvalidRequest) as refused:
            require_registered(request, ledger)
        assert line in str(refused.value)


def test_every_kind_with_dimensions_has_registered_lookups_alone(ledger: PrivacyLedger) -> None:
    evil = {"name": "evil", "key": "zip", "value": "region", "entries": [["10001", "one"], ["10002", "two"]]}
    by = [{"column": "zip", "lookup": evil}]
    asked = 0
    for kind, options in [(name, one) for name in DIAGNOSTICS for one in EXAMPLES[name]]:
        if "by" not in DIAGNOSTICS[kind].model_fields or "marginals" in options:
            continue
        given = {"kind": kind, **{name: value for name, value in options.items() if name != "measures"}, "by": by}
        chosen = DIAGNOSTICS[kind].parse(given)
        request = ReleaseRequest.parse(with_references(fields("regions"), ledger))
        with pytest.raises(InvalidRequest, match="must be a public lookup that is registered"):
            require_registered(request.model_copy(update={"diagnostics": (chosen,)}), ledger)
        asked += 1
    assert asked > 2


def test_an_administrator_registers_a_file(
    ledger: PrivacyLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = ledger.lookup("customers", "regions").lookup
    line = f"lookup regions of account customers: 400 keys, zip to region (3 values), sha256 {of.sha256}, registered by"
    file, head = str(tmp_path / "regions.csv"), ledger.head()
    capsys.readouterr()
    for arguments in (
        ["customers", "regions", file, "--actor", "another"], ["customers"], ["customers", "regions"],
        ["customers", "regions", file, "--hash", of.sha256, "--key", "zip", "--value", "region"],
    ):  # fmt: skip
        assert run(cli.app, ["lookup", *arguments]) == 0
        assert capsys.readouterr().out.startswith(f"{line} dpo\n")
    twice, many = tmp_path / "twice.csv", regions(tmp_path, name="many.csv", keys=MAX_ENTRIES + 1)
    twice.write_text("zip,region\n01000,north\n01000,south\n")
    for arguments, refusal in (
        (["more", str(twice)], "must have one row for each key (17 and '17' are one key)"),
        (["more", str(many)], "got '100,001 rows'; must be from 1 to 100,000"),
        (["more", file, "--hash", "0" * 64], "must be the hash of the lookup's content, which is"),
        (["regions", file, "--key", "region", "--value", "zip"], "must have one row for each key"),
        (["regions", str(tmp_path / "none.csv")], "must be a file that can be read"),
        (["nowhere"], "must be a public lookup that is registered for account customers"),
        (["regions", "--hash", of.sha256], "file: is required with these options"),
    ):
        assert run(cli.app, ["lookup", "customers", *arguments]) == 2
        [written] = capsys.readouterr().err.splitlines()
        assert refusal in written
    assert ledger.head() == head
    assert ledger.verification().findings == ()


def test_a_lookup_of_the_most_rows_is_registered_and_named(
    ledger: PrivacyLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = regions(tmp_path, name="many.csv", keys=MAX_ENTRIES)
    assert run(cli.app, ["lookup", "customers", "many", str(many), "--actor", "dpo"]) == 0
    assert "100,000 keys" in capsys.readouterr().out
    request = ReleaseRequest.parse(with_references(fields("many"), ledger))
    assert request.diagnostics[0].by[0].labels == (*LEVELS, "other")


def exact() -> pd.DataFrame:
    table = customers()
    known = {f"{1000 + number:05}": LEVELS[number % 3] for number in range(400)}
    region = table["zip"].map(known).fillna("other").rename("region")
    return table["spend"].clip(0, 200).groupby(region).agg(["size", "mean"])


@pytest.mark.slow
@pytest.mark.usefixtures("shared_java")
@pytest.mark.parametrize("master", ["embedded", pytest.param("local[2]", marks=pytest.mark.spark)])
def test_a_join_has_the_answer_of_pandas_on_both_engines(
    ledger: PrivacyLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str], master: str
) -> None:
    options = ["--epsilon", "1e8", "--master", master, "--csv"]
    for text, line in (
        (SELECT.replace("JOIN regions", "JOIN people"), "lookup: got 'people'; must be a public lookup that is"),
        (
            SELECT.replace("r.region", "r.land"),
            "as in the registered lookup regions, which has region",
        ),
        (SELECT.replace("r.zip", "r.plz"), "as in the registered lookup regions, which has zip"),
    ):
        assert run(cli.app, ["sql", text, *options, "--yes"]) == 2
        assert line in capsys.readouterr().err.splitlines()[-1]
    assert ledger.history("customers") == ()
    assert run(cli.app, ["sql", SELECT, *options, "--yes"]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out.split("\n\n")[0]))
    assert list(found["region"]) == list(exact().index)
    assert list(found["n"]) == pytest.approx(exact()["size"].tolist(), abs=1e-3)
    assert list(found["mean"]) == pytest.approx(exact()["mean"].tolist(), abs=1e-3)
    lookup = ledger.lookup("customers", "regions").lookup
    by = [{"column": "zip", "lookup": {"name": "regions", "sha256": lookup.sha256}}, "plan"]
    written = tmp_path / "request.yaml"
    asked = {**fields(""), "diagnostics": [{"kind": "aggregates", "by": by, "marginals": [["region"]]}]}
    asked |= {"table": {"snapshot": {"path_version": "v1"}}, "budget": {"epsilon": "1e8"}}
    written.write_text(yaml.safe_dump(asked))
    assert run(cli.app, ["run", str(written), "--master", master, "--gate", "aggregates.north.1.count > 100"]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    release = Release.from_json((folder / "release.json").read_bytes())
    [marginal] = release.results["aggregates"]["marginals"]
    assert marginal["keys"] == [[*LEVELS, "other"]]
    assert marginal["count"] == pytest.approx(exact()["size"][[*LEVELS, "other"]].tolist(), abs=1e-3)
    stated = {"column": "zip", "lookup": "regions", "value": "region", "sha256": lookup.sha256}
    assert release.results["aggregates"]["lookups"] == [stated]
    assert json.dumps(release.request["diagnostics"]).count(lookup.sha256) == 1
    assert lookup.sha256 in (folder / "report.html").read_text()
