"""What the account decides is not asked again, and what has begun keeps the terms that it began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from dp_operators.budget import ChargeConflict, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.releasing import ChargedRequest, complete, forecast, give_back
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.written import Written, read_written
from tests.support.commands import Command
from tests.support.release_lab import ForkRunner, Lab

COLUMNS = {
    "person": "string",
    "churned": "string in ('yes', 'no')",
    "age": "int between 0 and 120",
    "price": "double between 0 and 50 step 0.01",
    "points": "double between 300 and 850 score",
    "region": "string",
    "at": "timestamp between '2024-01-01' and '2030-01-01'",
}
TABLE = "/lake/customers"
WHO = {"actor": "dpo", "reason": "the form"}
LINE = {"kind": "linear_regression", "x": "age", "y": "price", "group_by": "region"}


@pytest.fixture
def ledger(lab: Lab) -> PrivacyLedger:
    lab.output = lab.open_account(
        "customers", TABLE, columns=COLUMNS, epsilon=10, unit={"column": "person", "max_rows": 1}
    )
    opened = lab.ledger()
    opened.register_keys("customers", "regions", ["north", "south"], actor="dpo")
    opened.change_domains("customers", TABLE, {"region": "in @regions"}, **WHO)
    return opened


def written(**changes: Any) -> ReleaseRequest | Written[ReleaseRequest]:
    fields = {
        "account": "customers",
        "table": {"snapshot": {"path_version": "v1"}},
        "diagnostics": [LINE],
        "budget": {"epsilon": "1"},
    }
    return read_written(ReleaseRequest, {**fields, **changes})


def test_a_request_says_only_what_the_account_does_not(lab: Lab, ledger: PrivacyLedger) -> None:
    request = complete(written(), ledger)
    [line] = request.diagnostics
    assert (line.x_bounds, line.y_bounds, line.groups) == ((0, 120), (0, 50), ("north", "south"))
    assert (request.unit.column, request.unit.max_rows) == ("person", 1)
    assert (request.table.path, request.output) == (f"file://{TABLE}", f"file://{lab.output}")
    assert complete(request, ledger) == request
    assert complete(ReleaseRequest.from_json(request.to_json()), ledger) == request
    told = forecast(ChargedRequest.of(written(), ledger, "k"), runner=ForkRunner())
    assert told.charged.request == request
    lab.open_account("visits", "/lake/visits-of-units", columns=COLUMNS, unit={"column": "person", "max_rows": 7})
    only = written(account="visits", unit={"column": "person"}, diagnostics=[{**LINE, "groups": ["a"]}])
    assert complete(only, ledger).unit.max_rows == 7
    with pytest.raises(InvalidRequest, match="which is all rows that share a value of person"):
        lab.release(request=written(unit={"column": "person", "max_rows": 2}), runner=ForkRunner())


def test_the_release_holds_the_domains_that_it_used(lab: Lab, ledger: PrivacyLedger) -> None:
    published = lab.release(request=written())
    manifest = json.loads((Path(published.uri) / "release.json").read_text())
    held = {column["name"]: column.get("domain") for column in manifest["request"]["table"]["columns"]}
    assert held["age"] == "between 0 and 120"
    assert (held["region"], held["person"]) == ("in @regions", None)
    assert manifest["request"]["diagnostics"][0]["x_bounds"] == [0, 120]


def test_a_retry_after_a_change_asks_for_the_same(lab: Lab, ledger: PrivacyLedger) -> None:
    key = ChargedRequest.of(written(), ledger).key
    first = lab.release(request=written(), key=key)
    other = f"{lab.folder}/moved"
    ledger.change_domains(
        "customers", TABLE, {"age": "between 0 and 100", "price": None, "region": "in ('west')"}, **WHO
    )
    ledger.bind_outputs("customers", [other, lab.output], actor="dpo", reason="a second folder")
    ledger.bind_outputs("customers", [other], actor="dpo", reason="another folder")
    assert ChargedRequest.of(written(), ledger).key == key
    again = lab.release(request=written(), key=key, runner=None)
    assert (again.uri, again.adopted, again.charge_id) == (first.uri, True, first.charge_id)
    assert len(ledger.history("customers")) == 1
    # another request under the key is still another one
    with pytest.raises((ChargeConflict, InvalidRequest)):
        lab.release(request=written(title="another"), key=key)
    # and a new one is on the new terms
    with pytest.raises(InvalidRequest, match="y_bounds"):
        lab.release(request=written(), key="new")


def test_a_reservation_is_given_back_on_the_terms_that_it_was_made_with(lab: Lab, ledger: PrivacyLedger) -> None:
    charged = complete(written(), ledger)
    assert lab.attempt("after_reserve", request=written(), key="k").wait().killed
    ledger.change_domains("customers", TABLE, {"age": "between 0 and 90"}, **WHO)
    assert complete(written(), ledger) != charged
    # nothing is in the store yet: the log says what the account said then
    told = forecast(ChargedRequest.of(written(), ledger, "k"), runner=ForkRunner())
    assert told.charged.request == charged
    assert give_back(ChargedRequest.of(written(), ledger, "k"), reason="not needed").state == "void"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"label": {"column": "churned", "positive": "Yes", "negative": "No"}}, "did you mean 'yes'?"),
        ({"label": "churned"}, "label.positive: is required: churned holds 'yes', 'no'"),
        ({"diagnostics": [{**LINE, "x_bounds": [0, 150]}]}, "agree with the domain of age, which is between 0 and 120"),
        ({"diagnostics": [{**LINE, "groups": ["North"]}]}, "did you mean 'north'?"),
        ({"diagnostics": [{"kind": "ecdf", "column": "price", "bounds": [0, 50], "step": 0.03}]}, "the step is 0.01"),
        ({"account": "custmers"}, "did you mean 'customers'?"),
        ({"table": {"path": "/lake/moved", "snapshot": {"path_version": "v1"}}},
         "`dp-budget bind customers --table file:///lake/moved`"),
    ],
)  # fmt: skip
def test_what_contradicts_the_account_is_refused_before_a_charge(
    lab: Lab, ledger: PrivacyLedger, changes: dict[str, Any], said: str
) -> None:
    head, runner = ledger.head(), ForkRunner()
    with pytest.raises(InvalidRequest) as refused:
        lab.release(request=written(**changes), runner=runner)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (ledger.head(), runner.runs) == (head, 0)


def test_where_an_account_has_several_the_request_names_one(lab: Lab, ledger: PrivacyLedger) -> None:
    ledger.bind_outputs("customers", [lab.output, f"{lab.folder}/b"], actor="dpo", reason="a second folder")
    with pytest.raises(InvalidRequest, match=r"^output: is required: account customers has file://.*, file://"):
        complete(written(), ledger)
    ledger.bind_outputs("customers", [], actor="dpo", reason="none")
    with pytest.raises(
        InvalidRequest, match=r"^output: is required: account customers is bound to no output; .*bind-outp"
    ):
        complete(written(), ledger)
    ledger.bind_table("customers", {
        "table": "/lake/second", "format": "parquet", "columns": COLUMNS, "version": {"by": "path_version"},
    }, **WHO)  # fmt: skip
    with pytest.raises(
        InvalidRequest, match=r"^table: is required: account customers has file:///lake/customers, file:"
    ):
        complete(written(), ledger)


def test_streams_take_their_time_from_the_period_and_stay_within_it(lab: Lab, ledger: PrivacyLedger) -> None:
    fields = {
        "account": "customers", "table": {"snapshot": {"path_version": "v1"}}, "time": "at", "step": "1 week",
        "budget": {"epsilon": "1"}, "states": {"column": "region"}, "start": "2024-01-01T00:00:00Z", "steps": 4,
    }  # fmt: skip
    stream = complete(read_written(StreamRequest, fields), ledger)
    assert stream.states is not None
    assert stream.states.keys == ("north", "south")
    with pytest.raises(InvalidRequest, match="must agree with the domain of at"):
        complete(read_written(StreamRequest, {**fields, "start": "2023-12-01T00:00:00Z"}), ledger)
    months = {name: value for name, value in fields.items() if name not in ("start", "steps", "step")}
    whole = complete(read_written(StreamRequest, {**months, "step": "1 day"}), ledger)
    assert (whole.start, whole.last_instant.isoformat()) == ("2024-01-01T00:00:00Z", "2030-01-01T00:00:00+00:00")


def test_the_command_line_shows_what_the_account_fills_in(
    lab: Lab, ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DP_LEDGER_URL", lab.url)
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0123456789abcdef" * 2)
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    types = [pa.string(), pa.string(), pa.int32(), pa.float64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")]
    nobody = pa.table({name: pa.array([], of) for name, of in zip(COLUMNS, types, strict=True)})
    pq.write_table(nobody, tmp_path / "lake" / "v1" / "part-0.parquet")
    columns = {**COLUMNS, "region": "string in ('north', 'south')"}
    lab.open_account(
        "here", str(tmp_path / "lake"), columns=columns, epsilon=10, unit={"column": "person", "max_rows": 3}
    )
    file = tmp_path / "request.yaml"
    fields = "account: here\ntable: {snapshot: {path_version: v1}}\nbudget: {epsilon: '1'}\n"
    file.write_text(f"{fields}diagnostics: [{{kind: linear_regression, x: age, y: price, group_by: region}}]\n")
    assert run(app, ["run", str(file), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "would charge epsilon 1 to here, which has 10 left"
    assert "  from the account: diagnostics.linear_regression.x_bounds [0.0, 120.0]" in lines
    assert '  from the account: unit {"column": "person", "max_rows": 3}' in lines
    file.write_text(f"{fields}diagnostics: auc\nlabel: {{column: churned, positive: Yes, negative: No}}\n"
                    "model: {kind: columns, basis: public, score: points}\n")  # fmt: skip
    assert run(app, ["run", str(file), "--dry-run"]) == 2
    assert "did you mean 'yes'?" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("command", "shared_java")
def test_scores_of_300_to_850_and_words_of_two_answers_are_released(command: Command, tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    yes = generator.random(4000) < 0.4
    points = np.clip(np.round(575 + 90 * yes + 110 * generator.standard_normal(4000)), 300, 850)
    rows = pd.DataFrame({"churned": np.where(yes, "yes", "no"), "points": points})
    folder = tmp_path / "lake"
    (folder / "v1").mkdir(parents=True)
    rows.to_parquet(folder / "v1" / "part-0.parquet")
    columns = {"churned": "string in ('yes', 'no')", "points": "double between 300 and 850 score"}
    command.open(str(folder), columns=columns)
    thresholds = [575, 620]
    release = command.release(
        {"snapshot": {"path_version": "v1"}},
        label={"column": "churned", "positive": "yes", "negative": "other"},
        model={"kind": "columns", "basis": "public", "score": "points"},
        diagnostics=["auc", {"kind": "confusion_matrix", "thresholds": thresholds}],
    )
    assert abs(release.results["auc"]["value"] - roc_auc_score(yes, points)) < 0.01
    exact = [int((yes & (points >= threshold)).sum()) for threshold in thresholds]
    assert np.allclose(release.results["confusion_matrix"]["true_positives"], exact, atol=10)
    assert release.request["label"]["negative"] == "no"
