"""The pages about accounts, releases and prices, rendered in this process from a ledger with a past."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from airflow.sdk import Connection
from sqlalchemy import event

from dp_operators.budget import ChargeState, LedgerUnavailable, NotAllowed, PrivacyLedger
from dp_operators.budget.overview import ChargeFilter
from dp_operators.hooks.ledger import ledger_url
from dp_operators.plugins import costs, pages, releases
from dp_operators.plugins.costs import cost_page
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.expressions import parser
from spark_jobs.contract.headlines import number_text
from spark_jobs.contract.store.layout import MAX_MANIFEST, release_folder
from spark_jobs.contract.tables import MAX_COEFFICIENTS
from tests.support.shown_ledger import KEY, SNEAKY, fill, request_for

pytestmark = pytest.mark.slow
_SYNTAX_TREE = parser.syntax_tree


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown")


@pytest.fixture(scope="module")
def shown(output: Path) -> Iterator[PrivacyLedger]:
    url = f"sqlite:///{output}/ledger.db"
    fill(url, output / "releases")
    ledger = PrivacyLedger(url)
    yield ledger
    ledger.close()


def account(ledger: PrivacyLedger, name: str = "visits", **wanted: object) -> str:
    return unescape(pages.account("ledger", ledger, name, ChargeFilter(**wanted), nonce="n"))


def ask(ledger: PrivacyLedger, text: str) -> str:
    return unescape(cost_page("ledger", ledger, text, nonce="n"))


class TestAccounts:
    def test_account_shows_what_is_left_and_how_long_it_lasts(self, shown: PrivacyLedger) -> None:
        page = account(shown)
        for text in ("80% of the cap", "21 days", "20% today", "The vertical line is today", "quality team: 4"):
            assert text in page
        assert SNEAKY not in pages.account("ledger", shown, "visits", ChargeFilter(), nonce="n")

    def test_higher_cap_that_is_asked_for_is_shown_beside_the_one_that_is(self, shown: PrivacyLedger) -> None:
        cap = shown.account("visits").cap.epsilon
        decision = shown.cap_decision("visits", epsilon=cap + 5)
        page = unescape(pages.account("ledger", shown, "visits", ChargeFilter(), decision, nonce="n"))
        left = decision.rows()[2]
        assert left[0] == "left"
        assert f'data-label="now">{left[1]}<' in page
        assert f'data-label="if approved">{left[2]}<' in page
        assert f'data-label="if approved">epsilon {cap + 5}<' in page
        assert "if approved" not in account(shown)

    def test_accounts_agree_with_the_ledger(self, shown: PrivacyLedger) -> None:
        for overview in shown.overviews():
            name = overview.account.name
            assert overview.account == shown.account(name)
            assert overview.spent == shown.blocks(name)
            alone, parts, page = shown.overview(name, ChargeFilter(limit=100))
            assert (alone.spent, alone.tightest, parts) == (overview.spent, overview.tightest, shown.sub_budgets(name))
            assert page.charges == tuple(reversed(shown.history(name)))
            # both burn-downs come to the same rate, one from 30 days and one from all charges
            assert alone.burn_down.rate == pytest.approx(overview.burn_down.rate)
            assert alone.burn_down.start == pytest.approx(1.0)

    def test_blocks_that_have_a_cap_of_their_own_are_counted_alone(self, shown: PrivacyLedger) -> None:
        page = account(shown, "clinics & wards")
        today = datetime.now(UTC).date().isoformat()
        assert f"in block {today}" in page or "in block" in page
        assert "All charged blocks" in page
        burn_down = shown.overview("clinics & wards", ChargeFilter())[0].burn_down
        assert burn_down.left / burn_down.rate == pytest.approx(120)  # 1.6 of 2 is left, and 0.4 was spent in 30 days
        assert "too early to say" in page  # by the block's only charge
        assert "120 days" not in page

    def test_filters_narrow_the_charges(self, shown: PrivacyLedger) -> None:
        assert "1 to 15 of 15 charges" in account(shown)
        assert "1 to 1 of 1 charges that match" in account(shown, state=ChargeState.VOID)
        assert "1 to 1 of 1 charges that match" in account(shown, text="-W03/")
        assert "No charge matches" in account(shown, text="100%")
        day = datetime.now(UTC).date()
        assert "1 to 1 of 1 charges that match" in account(shown, since=day, until=day)
        assert "No charge matches" in account(shown, until=day.replace(year=2000))
        assert "15 charges that match" in account(shown, until=day.max)

    def test_pages_of_charges_follow_one_another(self, shown: PrivacyLedger) -> None:
        first, last = account(shown, limit=10), account(shown, limit=10, offset=10)
        assert ("Older charges" in first, "Newer charges" in first) == (True, False)
        assert ("Older charges" in last, "Newer charges" in last) == (False, True)
        assert "11 to 15 of 15" in last

    def test_csv_is_no_formula(self, shown: PrivacyLedger) -> None:
        charges = shown.charges("visits", ChargeFilter(limit=100)).charges
        bad = [charge.__class__(**{**vars(charge), "release": "=1+1", "actor": "@x"}) for charge in charges[:1]]
        rows = list(csv.DictReader(io.StringIO("".join(pages.charges_csv([*bad, *charges], shown.account("visits"))))))
        assert (rows[0]["release"], rows[0]["actor"]) == ("'=1+1", "'@x")
        assert len(rows) == 16
        assert {row["epsilon"] for row in rows} == {"0.5", "0.75"}

    def test_csv_has_each_charge_once_while_others_are_reserved(self, tmp_path: Path) -> None:
        ledger = PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db")
        ledger.migrate()
        ledger.open_account("a", epsilon="9")
        known = [ledger.reserve("a", release=f"r{number}", epsilon="0.1").release for number in range(7)]
        read = []
        for charge in pages.charges_of(ledger, "a", ChargeFilter(), size=3):
            read.append(charge.release)
            if len(read) == 2:
                ledger.reserve("a", release="late", epsilon="0.1")
        ledger.close()
        assert read == known[::-1]

    def test_five_queries_are_enough(self, shown: PrivacyLedger) -> None:
        asked: list[str] = []

        def count(*given: object) -> None:
            asked.append(str(given[2]))

        engine = shown._database._engine()
        event.listen(engine, "before_cursor_execute", count)
        try:
            for page in (
                lambda: account(shown),
                lambda: account(shown, text="w0", state=ChargeState.COMMITTED),
                lambda: pages.accounts("ledger", shown, nonce="n"),
            ):
                asked.clear()
                page()
                queries = [statement for statement in asked if "SELECT" in statement]
                assert 3 <= len(queries) <= 5, queries
        finally:
            event.remove(engine, "before_cursor_execute", count)


class TestReleases:
    def page(self, ledger: PrivacyLedger, key: str = KEY, *, run: str = "") -> str:
        return unescape(releases.release_page("ledger", ledger, "visits", key, run=run, nonce="n"))

    def test_published_release_is_shown(self, shown: PrivacyLedger) -> None:
        page = self.page(shown, run="/dags/visits_report")
        for text in ("The task that made it", "roc_curve.svg", "The full report", "seeing it changes the odds"):
            assert text in page
        [charge] = [one for one in shown.history("visits") if one.release == KEY]
        assert charge.figures
        for figure in charge.figures:
            low, high = figure["interval"]
            row = f'{figure["name"]}</th><td role="cell" data-label="value">{number_text(figure["value"])}</td>'
            assert row in page
            assert f">{number_text(low)} to {number_text(high)}</td>" in page
        report = releases.release_file(shown, "visits", KEY, "report.html")
        assert b"<html" in report.content
        assert "sandbox" in report.headers["Content-Security-Policy"]
        parquet = releases.release_file(shown, "visits", KEY, "roc_curve.parquet")
        assert parquet.media_type == "application/octet-stream"
        assert parquet.headers["Content-Disposition"] == 'attachment; filename="roc_curve.parquet"'

    @pytest.mark.parametrize(
        "name",
        ["release.json", "receipt.json", "_draft/claim.json", "../secret", "/etc/passwd", "roc_curve.svg/..", "", "."],
    )
    def test_only_files_of_the_manifest_are_served(self, shown: PrivacyLedger, output: Path, name: str) -> None:
        folder = Path(release_folder(str(output / "releases"), KEY))
        (folder / "_draft").mkdir(exist_ok=True)
        for private in ("_draft/claim.json", "../secret"):
            (folder / private).write_text("private")
        with pytest.raises(InvalidRequest):
            releases.release_file(shown, "visits", KEY, name)

    @pytest.mark.parametrize("key", ["../../etc", "file:///etc", "", KEY + "/..", "nobody"])
    def test_key_that_was_never_charged_opens_nothing(self, shown: PrivacyLedger, key: str) -> None:
        with pytest.raises(InvalidRequest):
            self.page(shown, key)

    def test_charge_without_a_published_release_says_so(self, shown: PrivacyLedger) -> None:
        assert "must be published in a folder of account visits" in self.page(shown, SNEAKY)
        assert "Nothing is published for this charge" in self.page(shown, "airflow/visits_report/2026-w09/release/-1")

    def test_altered_files_are_not_served(self, shown: PrivacyLedger, output: Path) -> None:
        folder = Path(release_folder(str(output / "releases"), KEY))
        for name, text in (("roc_curve.svg", "<svg onload='x'/>"), ("release.json", "{}")):
            before = (folder / name).read_bytes()
            (folder / name).write_text(text)
            try:
                with pytest.raises(InvalidRequest):
                    releases.release_file(shown, "visits", KEY, "roc_curve.svg")
            finally:
                (folder / name).write_bytes(before)

    @pytest.mark.parametrize("planted", ["link", "sparse"])
    @pytest.mark.parametrize("name", ["roc_curve.svg", "release.json"])
    def test_page_cannot_be_filled_up_from_the_store(
        self, shown: PrivacyLedger, output: Path, name: str, planted: str
    ) -> None:
        """Whoever writes to the store may put a file without an end there."""
        place = Path(release_folder(str(output / "releases"), KEY)) / name
        before = place.read_bytes()
        place.unlink()
        if planted == "link":
            place.symlink_to("/dev/zero")
        else:
            with place.open("wb") as file:
                file.truncate(2**36)
        tracemalloc.start()
        try:
            with pytest.raises(InvalidRequest):
                releases.release_file(shown, "visits", KEY, "roc_curve.svg")
            self.page(shown)
            # a reader has the largest manifest twice, as it asks for one byte more
            assert tracemalloc.get_traced_memory()[1] < 2 * MAX_MANIFEST + 2**25
        finally:
            tracemalloc.stop()
            place.unlink()
            place.write_bytes(before)


class TestCosts:
    def test_request_of_many_features_is_refused_before_they_are_parsed(
        self, shown: PrivacyLedger, output: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parsed: list[str] = []
        monkeypatch.setattr(parser, "syntax_tree", lambda text: parsed.append(text) or _SYNTAX_TREE(text))
        fields = json.loads(request_for(output / "releases").to_json())
        for number in (MAX_COEFFICIENTS, 3 * MAX_COEFFICIENTS):
            features = {f"score + {number}.{place}": 0.5 for place in range(number)}
            fields["model"] = {"kind": "logistic", "basis": "public", "coefficients": features}
            parsed.clear()
            page = ask(shown, json.dumps(fields))
            assert len(parsed) == (MAX_COEFFICIENTS if number == MAX_COEFFICIENTS else 0)
            assert ("coefficients" in page and "at most 500 items" in page) == (not parsed)

    def test_price_is_told_and_nothing_is_charged(self, shown: PrivacyLedger, output: Path) -> None:
        before = shown.head()
        text = request_for(output / "releases").to_json()
        page = ask(shown, text)
        for told in ("epsilon 0.5", "account?name=visits", ">2<", ">1.5<", "roc_curve"):
            assert told in page
        assert "would be refused" not in page
        assert shown.head() == before

    def test_forecast_is_made_from_what_is_stated(
        self, shown: PrivacyLedger, output: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[object] = []

        def widths(request: object, table: object, *, patience: float) -> list[dict[str, object]]:
            asked.append(table)
            return [{"kind": "roc_curve", "undefined": 0.0, "widths": {"auc_interval": 0.0234}}]

        monkeypatch.setattr(costs, "expected_widths", widths)
        text = request_for(output / "releases").to_json()
        expected = {"rows": "45000", "positive_rate": " 0.06 ", "auc": "", "r_squared": ""}
        page = costs.cost_page("ledger", shown, text, expected, nonce="n")
        assert "auc interval" in page
        assert "0.023" in page
        assert asked == [ExpectedTable(rows=45_000, positive_rate=0.06)]
        wrong = costs.cost_page("ledger", shown, text, {"rows": "many"}, nonce="n")
        assert "It would be refused" in wrong
        with costs._FORECASTS:
            assert "another forecast" in costs.cost_page("ledger", shown, text, expected, nonce="n")

    def test_request_that_would_be_refused_is_told_why(self, shown: PrivacyLedger, output: Path) -> None:
        for changes, why in (
            ({"budget": {"epsilon": "5"}}, "2"),
            ({"account": "nobody"}, "must be an open account"),
            ({"output": "/elsewhere"}, "output"),
        ):
            text = request_for(output / "releases", **changes).to_json()
            page = ask(shown, text)
            assert "It would be refused" in page
            assert why in page
        assert "It would be refused" in ask(shown, "{")
        assert "<script>" not in cost_page("ledger", shown, "<script>alert(1)</script>", nonce="n")

    @pytest.mark.parametrize(
        "model",
        [
            {"release": "file:///etc"},
            {"kind": "linear", "release": "/etc"},
            {"uri": "s3://bucket/x", "key": "k"},
            {"kind": "spark_ml", "path": "s3://bucket/x", "basis": "public"},
        ],
    )
    def test_no_place_of_the_request_is_read(
        self, shown: PrivacyLedger, model: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forbidden(*_: object, **__: object) -> None:
            raise AssertionError("the store was opened")

        monkeypatch.setattr("dp_operators.releasing.committed_releases.open_store", forbidden)
        monkeypatch.setattr("dp_operators.releasing.saved_models.read_pipeline", forbidden)
        assert "this page reads neither" in ask(shown, json.dumps({"account": "visits", "model": model}))

    @pytest.mark.parametrize("compared", ["/etc", "file:///etc", {"release": "/etc"}, {"uri": "/etc", "key": "k"}])
    def test_no_release_to_compare_with_is_read(
        self, shown: PrivacyLedger, output: Path, compared: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forbidden(*_: object, **__: object) -> None:
            raise AssertionError("the store was opened")

        monkeypatch.setattr("dp_operators.releasing.committed_releases.open_store", forbidden)
        fields = request_for(output / "releases").to_dict()
        fields["diagnostics"] = [{"kind": "ecdf", "compare_with": compared}]
        assert "this page reads neither" in ask(shown, json.dumps(fields))


def test_a_page_says_neither_where_the_database_is_nor_who_signs_in(caplog: pytest.LogCaptureFixture) -> None:
    url, why = "postgresql+psycopg://quality@db.internal/ledger", "connection to db.internal failed"
    for error in (LedgerUnavailable(url, why), NotAllowed(url, why)):
        line = pages.line_of(error)
        assert line.startswith("the ledger of this connection ")
        assert "quality" not in line
        assert "internal" not in line
        assert "db.internal" in caplog.records.pop().getMessage()


def test_a_ledger_that_is_not_migrated_is_not_named_either(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """During every upgrade, a page meets a ledger of an earlier version."""
    with closing(PrivacyLedger(f"sqlite:///{tmp_path}/empty.db")) as empty, pytest.raises(InvalidRequest) as refused:
        empty.accounts()
    connection = Connection(conn_id="l", conn_type="privacy_ledger", extra=json.dumps({"path": "secret/ledger.db"}))
    with pytest.raises(InvalidRequest) as wrong:
        ledger_url(connection)
    for error, said in ((refused, "run `dp-budget migrate`"), (wrong, "connection l: must name an absolute path")):
        line = pages.line_of(error.value)
        assert said in line
        assert ".db" not in line
        assert ".db" in caplog.records.pop().getMessage()
