"""The account, not the request, says what a table is: attacks by types, versions and filters, each refused for free."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.releasing import ChargedRequest, complete, give_back
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import Charged, run_charged
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.sealing import Seal
from spark_jobs.mechanisms.noise import SecureNoise
from tests.support.accounts import bound
from tests.support.release_lab import ForkRunner, Lab, make_request, reserved_with

CSV = {"person": "string", "region": "int", "at": "timestamp", "visit": "int", "score": "double", "v": "string"}
BY_VERSION = {"by": "partition", "columns": ["v", "person"]}
LINE = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1], "public_sizes": True}
PINNED = {"path": "/lake/csv", "snapshot": {"path_version": "v1"}}


@pytest.fixture
def ledger(lab: Lab) -> PrivacyLedger:
    lab.open_account("regions", "/lake/csv", columns=CSV, form="csv", blocks="value(region)")
    return lab.ledger()


def refused(lab: Lab, **changes: Any) -> InvalidRequest:
    """What a release of the request is refused by: nothing runs, and the ledger stays as it is."""
    ledger, runner = lab.ledger(), ForkRunner()
    before = ledger.head()
    with pytest.raises(InvalidRequest) as caught:
        lab.release(request=make_request(lab.output, **changes), runner=runner)
    assert (ledger.head(), runner.runs) == (before, 0)
    assert "\n" not in str(caught.value)
    return caught.value


def test_rows_are_not_read_under_a_second_type_and_so_not_under_a_second_block(lab: Lab, ledger: PrivacyLedger) -> None:
    # as integers these rows lie in block '7', as doubles in '7.0'
    asked = {"account": "regions", "blocks": ["7.0"]}
    for columns in ({**CSV, "region": "double"}, CSV):
        told = refused(lab, **asked, table={**PINNED, "format": "csv", "columns": columns})
        assert str(told) == "table.format: is set by the account in a charged request; leave it out"
    request = complete(make_request(lab.output, account="regions", blocks=["7"], table=PINNED), ledger)
    assert {column.name: column.type for column in request.table.columns or ()} == CSV
    assert str(request.block_expression) == "value(region)"
    assert complete(request, ledger) == request


def test_accounts_whose_columns_could_move_rows_between_blocks_are_not_opened(ledger: PrivacyLedger) -> None:
    before = ledger.head()
    for columns, blocks in (({"r": "double"}, "value(r)"), ({"r": "string"}, "day(r)"), ({"x": "int"}, "value(r)")):
        with pytest.raises(InvalidRequest, match=r"^blocks: "):
            ledger.open_account("new", epsilon=1, tables=[bound("/lake/new", columns)], blocks=blocks)
    with pytest.raises(InvalidRequest, match=r"^unit\.column: "):
        ledger.open_account("new", epsilon=1, tables=[bound("/lake/new", {"x": "int"})], unit={"column": "person"})
    assert ledger.head() == before


def test_an_account_opened_without_columns_is_charged_once_they_are_bound(lab: Lab, ledger: PrivacyLedger) -> None:
    lab.output = f"{lab.folder}/early"
    ledger.open_account("early", epsilon=1, tables=["/lake/early"], outputs=[lab.output])
    table = {"path": "/lake/early", "snapshot": {"path_version": "v1"}}
    assert "`dp-budget bind early`" in refused(lab, account="early", table=table).remedy
    ledger.bind_table("early", bound("/lake/early"), actor="dpo", reason="opened before columns were bound")
    assert lab.release(request=make_request(lab.output, account="early", table=table)).cost.epsilon == 1


def test_a_release_is_found_again_when_its_account_has_bound_another_column(lab: Lab, ledger: PrivacyLedger) -> None:
    output = f"{lab.folder}/releases-of-regions"
    request = make_request(output, account="regions", blocks=["7"], table=PINNED)
    first = lab.release(request=request)
    ledger.bind_table("regions", bound("/lake/csv", {**CSV, "added": "int"}, form="csv"), actor="dpo", reason="grown")
    runner = ForkRunner()
    again = lab.release(request=request, runner=runner)
    assert (again.adopted, again.manifest_sha256, runner.runs) == (True, first.manifest_sha256, 0)


@pytest.mark.parametrize("partition", [{"v": "1"}, {"person": "ann"}, {"v": "1", "person": "ann", "region": "7"}])
def test_a_pin_reads_one_version(lab: Lab, ledger: PrivacyLedger, partition: dict[str, str]) -> None:
    lab.output = lab.open_account("states", "/lake/states", version=BY_VERSION, columns=CSV)
    told = refused(lab, account="states", table={"path": "/lake/states", "snapshot": {"partition": partition}})
    assert told.field == "table.snapshot.partition"
    pinned = {"path": "/lake/states", "snapshot": {"partition": {"v": "1", "person": "ann"}}}
    assert lab.release(request=make_request(lab.output, account="states", table=pinned))


def test_a_public_size_is_of_public_columns_alone(lab: Lab, ledger: PrivacyLedger) -> None:
    """Under the stamp of privacy, ``sick = 1 AND person = '17'`` was answered by an exact 1."""
    lab.output = lab.open_account("tracts", "/lake/tracts", neighbours="replace_one")
    table = {"path": "/lake/tracts", "snapshot": {"path_version": "v1"}}
    asked = {"account": "tracts", "table": table, "neighbours": "replace_one", "label": None, "model": None}
    line = {**asked, "diagnostics": [LINE]}
    assert refused(lab, **line, where="person = '17' AND sick = 1").field == "where"
    grouped = {**asked, "diagnostics": [{**LINE, "group_by": "tract", "groups": ["001"]}]}
    assert refused(lab, **grouped).field == "diagnostics.group_by"
    assert refused(lab, **line, where="a > 0.5").field == "where"
    ledger.bind_table("tracts", bound("/lake/tracts", public=["tract", "a"]), actor="dpo", reason="the census")
    assert complete(make_request(lab.output, **grouped), ledger).table.public_columns == ("a", "tract")
    assert "read by x or y" in refused(lab, **line, where="a > 0.5").requirement
    told = refused(lab, **{**asked, "table": {**table, "public_columns": ["person", "sick"]}}, diagnostics=[LINE])
    assert told.field == "table.public_columns"


def test_only_the_account_says_how_many_rows_a_unit_has(lab: Lab, ledger: PrivacyLedger) -> None:
    """Whoever asks for a release could otherwise take back the bound on what a person loses."""
    lab.output = lab.open_account("tracts", "/lake/tracts")
    table = {"path": "/lake/tracts", "snapshot": {"path_version": "v1"}}
    asked = make_request(lab.output, account="tracts", table={**table, "rows_per_unit": 1})
    with pytest.raises(InvalidRequest, match=r"table\.rows_per_unit: is set by the account"):
        complete(asked, ledger)
    binding = {**bound("/lake/tracts").model_dump(), "rows_per_unit": 3}
    ledger.bind_table("tracts", binding, actor="dpo", reason="three doses")
    completed = complete(make_request(lab.output, account="tracts", table=table), ledger)
    assert completed.table.rows_per_unit == 3
    assert complete(completed, ledger) == completed


def test_the_copy_that_a_releases_folder_keeps_gives_the_reservation_back(lab: Lab, ledger: PrivacyLedger) -> None:
    reserved_with(lab)
    [stored] = Path(lab.output).rglob("request.json")
    copy = ReleaseRequest.parse(json.loads(stored.read_bytes()))
    assert copy.table.is_bound
    assert give_back(ChargedRequest.of(copy, ledger, lab.key), reason="why").state is not ChargeState.RESERVED


def test_a_charged_run_without_the_accounts_terms_reads_nothing(tmp_path: Path) -> None:
    request = make_request(f"{tmp_path}/out")
    seal = Seal(secret=bytes(32), charge_id="c", request_sha256=request.sha256)
    with pytest.raises(
        InvalidRequest,
        match=r"^table: must have the columns and the version that its account binds, because the run is charged",
    ):
        run_charged(
            request,
            Charged(key="k", seal=seal, run=1),
            output=f"{tmp_path}/out",
            store=open_store(f"{tmp_path}/out"),
            noise=SecureNoise(),
            master=None,
            announcer=Announcer.for_process(sys.stderr),
        )
    assert list(tmp_path.rglob("*.json")) == []
