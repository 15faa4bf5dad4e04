"""`dp-budget init` sets up what it says in one folder, from answers or options, and refuses before it writes."""

from __future__ import annotations

import datetime as dt
import runpy
import shutil
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.set_up import account_name
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import load_fields

HEADER = "customer no.,monthly fee (EUR),did they leave?,model's score\n"
ANSWERS = ["", "2,4", "", "3", "yes", "no", "model's score", "y", "2", "", "y"]
OPTIONS = [
    *("--account", "fees"),
    *("--numbers", "2"),
    *("--unit-column", "customer no."),
    *("--max-rows", "3"),
    *("--outcome", ""),
    *("--value", "2"),
    *("--bounds", "0,200"),
    *("--cap", "1"),
    *("--epsilon", "0.5"),
    "--no-dag",
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DP_LEDGER_URL", raising=False)
    path = tmp_path / "Customers 2026.csv"
    path.write_text(f"{HEADER}a secret row,1,yes,0.5\n")
    path.chmod(0o600)
    return path


def init(*arguments: str, answers: list[str] | None = None) -> str:
    typed = "" if answers is None else "".join(f"{line}\n" for line in answers)
    result = CliRunner().invoke(app, ["init", *arguments], input=typed)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(app, ["init", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.airflow
@pytest.mark.slow
def test_answers_give_an_account_a_request_and_a_dag(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    printed = init(str(file), "--folder", str(folder), answers=ANSWERS)
    assert "a secret row" not in printed
    assert "wrote" in printed
    ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")
    account = ledger.account("customers_2026")
    assert (str(account.cap.epsilon), account.unit.column) == ("2", None)
    [binding] = account.bindings.values()
    assert [column["type"] for column in binding["columns"]] == ["string", "double", "string", "double"]
    request = ReleaseRequest.parse(load_fields(folder / "customers_2026.yaml"))
    assert request.output.startswith(account.outputs[0].removeprefix("file://"))
    assert str(request.budget.epsilon) == "1"
    dag = runpy.run_path(str(folder / "dags" / "customers_2026.py"))["release"].dag
    assert sorted(dag.task_ids) == ["budget", "release"]
    copy = folder / "customers_2026" / "v1" / "customers_2026.csv"
    assert copy.read_bytes() == file.read_bytes()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_options_answer_every_question(file: Path, tmp_path: Path) -> None:
    init(str(file), "--folder", str(tmp_path), *OPTIONS)
    request = ReleaseRequest.parse(load_fields(tmp_path / "fees.yaml"))
    assert (request.unit.column, request.unit.max_rows) == ("customer no.", 3)
    assert [options.kind for options in request.diagnostics] == ["ecdf"]
    assert not (tmp_path / "dags").exists()
    for secret in ("salt", "settings.sh"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600


def test_a_second_account_shares_ledger_and_salt(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(str(file), "--folder", str(tmp_path), *OPTIONS)
    salt = (tmp_path / "salt").read_bytes()
    init(str(file), "--folder", str(tmp_path), *OPTIONS[2:], "--account", "others")
    assert (tmp_path / "salt").read_bytes() == salt
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert len(ledger.accounts()) == 2
    [binding] = ledger.account("fees").bindings.values()
    assert [column.get("domain") for column in binding["columns"]] == [None, "between 0 and 200", None, None]
    again = refused(str(file), "--folder", str(tmp_path), *OPTIONS, capsys=capsys)
    assert "account: got 'fees'; must be new, but" in again


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--value", "9"], "value: got '9'; must be a column, by its name or by a number from 1 to 4"),
        (["--value", "1"], "value: got 'customer no.'; must be a column of numbers; name one of: monthly fee"),
        (["--value", ""], "value: got ''; must be a column of numbers"),
        (["--numbers", "2;4"], "numbers: got '2;4'; must be a column"),
        (["--bounds", "0"], "bounds: got '0'; must be two numbers"),
        (["--bounds", "5,2"], "bounds"),
        (["--epsilon", "2"], "epsilon: got '2'; must be at most the cap, 1"),
        (["--epsilon", "0"], "epsilon"),
        (["--max-rows", "many"], "max_rows: got 'many'; must be a whole number"),
        (["--outcome", "3", "--positive", "yes", "--negative", "no", "--score", "2", "--no-public-model"],
         "model: must have been fitted on other rows, or privately"),
        (["--outcome", "3", "--positive", "yes", "--negative", "no", "--score", "3"],
         "score: got 'did they leave?'; must be a column of numbers"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_wrong_answer_writes_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: list[str], message: str
) -> None:
    folder = tmp_path / "new"
    assert message in refused(str(file), "--folder", str(folder), *OPTIONS, *changed, capsys=capsys)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the first line is empty; write the column names into the first line of each file"),
        ("a,a\n", "the first line has one name more than once, at places 1, 2; rename the columns"),
        ("b,a,c,A\n", "the first line has one name more than once, at places 2, 4; rename the columns"),
        (",a,b\n", "the first line names no column at place 1; name it"),
        ("\xff", "the first line is not in utf-8; declare its encoding"),
        ("a;b;c\n", "has 1 value if the separator is a comma, and 3 if it is a semicolon; declare it: --file-form sep"),
        ("a\tb\n", "and 2 if it is a tab; declare it: --file-form separator=tab"),
        ("Report of 2026,,,\n", "the first line has text in 1 of 4 places, as a title above the header has"),
    ],
)
def test_a_first_line_that_is_no_header_is_refused_by_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    path = tmp_path / "wrong.csv"
    path.write_bytes(text.encode("latin-1"))
    assert told in refused(str(path), *OPTIONS, capsys=capsys)
    assert (
        refused(str(tmp_path / "table.xlsx"), *OPTIONS, capsys=capsys).count(
            "must be a .csv or .parquet file; for tables"
        )
        == 1
    )


def test_a_file_form_is_bound_with_the_columns(file: Path, tmp_path: Path) -> None:
    file.write_bytes("customer no.;fee \xe9;left;score\na secret row;1,5;y;0,5\n".encode("cp1252"))
    forms = ["separator=semicolon", "decimal=,", "encoding=windows-1252"]
    options = [word for form in forms for word in ("--file-form", form)]
    printed = init(str(file), "--folder", str(tmp_path), *OPTIONS, *options)
    assert "   2  fee \xe9\n" in printed
    assert "read with separator semicolon, cp1252, numbers like 1234,5" in printed
    assert "secret" not in printed
    [binding] = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}").account("fees").bindings.values()
    assert binding["file_form"] == {"separator": ";", "decimal": ",", "encoding": "cp1252"}


def test_questions_without_answers_are_refused(file: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["init", str(file), "--folder", str(tmp_path / "new")], input="")
    assert "has no answer to: Name of the account" in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_a_wrong_answer_is_asked_again(file: Path, tmp_path: Path) -> None:
    answers = ["", "2;4", "2,4", "", "9", "3", "yes", "no", "1", "model's score", "y", "x", "2", "", "n"]
    printed = init(str(file), "--folder", str(tmp_path / "new"), answers=answers)
    assert "numbers: got '2;4'; must be a column" in printed
    assert "outcome: got '9'; must be a column" in printed
    assert "score: got 'customer no.'; must be a column of numbers" in printed
    assert PrivacyLedger(f"sqlite:///{tmp_path / 'new' / 'ledger.db'}").account("customers_2026").cap.epsilon == 2


def test_every_question_is_asked_again_where_its_answer_is_wrong_by_itself(file: Path, tmp_path: Path) -> None:
    # no column was said to hold numbers, so that the one of the scores is taken for one
    answers = ["releases", "fees", "", "", "3", "", "yes", "yes", "no", "4", "y", "0", "1", "2", "0.5", "n"]
    printed = init(str(file), "--folder", str(tmp_path / "new"), answers=answers)
    assert "account: got 'releases'; must be 1 to 100 letters" in printed
    assert "positive: got ''; must be a text" in printed
    assert "negative: got 'yes'; must be a text, and another one than 'yes'" in printed
    assert "cap: got '0'; must be above 0" in printed
    assert "epsilon: got '2'; must be at most the cap, 1" in printed
    [binding] = PrivacyLedger(f"sqlite:///{tmp_path / 'new' / 'ledger.db'}").account("fees").bindings.values()
    assert [column["type"] for column in binding["columns"]] == ["string", "string", "string", "double"]


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("Größe & Umsatz 2026", "grosse_umsatz_2026"),
        ("Ventas México", "ventas_mexico"),
        ("数据", "table"),
    ],
)
def test_an_account_has_a_name_that_can_be_read(name: str, account: str) -> None:
    assert account_name(Path(f"{name}.csv")) == account


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "a/b",
        "a'b",
        '"""\nimport os\n"""',
        "`id`",
        "-x",
        ".",
        "",
        "salt",
        "Dags",
        "dp_operators",
        "\u00e9",
    ],
)
def test_names_that_are_no_file_of_the_folder_are_refused(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / "new"
    line = refused(str(file), "--folder", str(folder), *OPTIONS, f"--account={name}", capsys=capsys)
    assert "account: got" in line
    assert not folder.exists()


@pytest.mark.parametrize("failing", ["open_account", "copyfileobj", "safe_dump"])
def test_what_fails_leaves_nothing_of_the_account(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    place = {"open_account": PrivacyLedger, "copyfileobj": shutil, "safe_dump": yaml}[failing]
    with monkeypatch.context() as patched:
        patched.setattr(place, failing, fail)
        assert "must be writable: No space left" in refused(
            str(file), "--folder", str(tmp_path), *OPTIONS, capsys=capsys
        )
    assert not any((tmp_path / name).exists() for name in ("fees", "fees.yaml", "releases/fees"))
    init(str(file), "--folder", str(tmp_path), *OPTIONS)
    assert len((tmp_path / "salt").read_text().strip()) == 64


@pytest.mark.parametrize(("outcome", "answers", "of"), [("string", ("yes", "no"), str), ("int", ("1", "0"), int)])
def test_a_parquet_file_has_types_that_nobody_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, answers: tuple[str, str], of: type
) -> None:
    monkeypatch.delenv("DP_LEDGER_URL", raising=False)
    left = pa.array(["yes"]) if outcome == "string" else pa.array([1], pa.int32())
    rows = {"customer": ["a secret row"], "fee": [1.5], "left": left, "score": [0.5], "since": [dt.date(2026, 1, 1)]}
    pq.write_table(pa.table(rows), tmp_path / "Churn.parquet")
    folder = tmp_path / "new"
    given = ["", "", "3", *answers, "score", "y", "", "", "n"]
    printed = init(str(tmp_path / "Churn.parquet"), "--folder", str(folder), answers=given)
    assert "a secret row" not in printed
    assert "   2  fee double\n" in printed
    [binding] = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}").account("churn").bindings.values()
    assert binding["format"] == "parquet"
    assert [one["type"] for one in binding["columns"]] == ["string", "double", outcome, "double", "date"]
    request = load_fields(folder / "churn.yaml")
    assert [request["label"][side] for side in ("positive", "negative")] == [of(answer) for answer in answers]
    assert (folder / "churn" / "v1" / "churn.parquet").read_bytes() == (tmp_path / "Churn.parquet").read_bytes()


def test_what_only_csv_files_have_is_refused_of_a_parquet_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "churn.parquet"
    pq.write_table(pa.table({"fee": [1.5], "left": [True], "score": [0.5]}), file)
    options = ["--account", "x", "--unit-column", "", "--folder", str(tmp_path / "new")]
    assert "numbers: got '1'; must be left out for" in refused(str(file), *options, "--numbers", "1", capsys=capsys)
    labels = ["--outcome", "left", "--positive", "true", "--negative", "false", "--score", "score", "--public-model"]
    assert "outcome: got 'left'; must be a column of texts" in refused(str(file), *options, *labels, capsys=capsys)
    file.write_bytes(b"PAR1")
    assert "must be a whole Parquet file" in refused(str(file), *options, capsys=capsys)
