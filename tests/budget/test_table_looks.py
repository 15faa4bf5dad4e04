"""What `open` and `bind` say of a table's files, from first lines alone, and what they refuse."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app

SECRET = "Zebedee-4711"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DP_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    assert run(app, ["migrate"]) == 0
    folder = tmp_path / "visits"
    (folder / "v1").mkdir(parents=True)
    return folder


def opened(table: Path, columns: str, *options: str, form: str = "csv") -> int:
    described = ["--table", str(table), "--format", form, "--columns", columns, "--yes"]
    return run(app, ["open", "visits", "--epsilon", "1", *described, *options])


def test_open_says_what_it_found_and_what_it_assumes(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "v1" / "a.csv").write_text(f"id,fee\n{SECRET},2\n")
    (table / "v1" / "b.csv.gz").write_bytes(gzip.compress(b"id,fee\n"))
    assert opened(table, "id string, fee double") == 0
    said = capsys.readouterr().err
    assert "of version v1 there are 2 files, and the first line of each was looked at: it names the bound" in said
    assert "assumed: separator comma, utf-8, numbers like 1234.5, dates like yyyy-MM-dd (--file-form declares" in said
    assert SECRET not in said


def test_a_declared_form_is_bound_and_may_change_where_there_are_no_blocks(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table / "v1" / "a.csv").write_text("id;fee\n1;2,5\n")
    assert opened(table, "id int, fee double", "--file-form", "separator=;") == 0
    ledger = PrivacyLedger(f"sqlite:///{table.parent / 'ledger.db'}")
    binding = ["bind", "visits", "--file-form", "decimal=,", "--reason", "seen", "--yes"]
    assert run(app, binding) == 0
    [bound] = ledger.account("visits").bindings.values()
    assert bound["file_form"] == {"separator": ";", "decimal": ","}
    assert "declared: separator=;, decimal=," in capsys.readouterr().err
    assert ledger.verify()


def test_a_form_stays_where_blocks_depend_on_it(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "v1" / "a.csv").write_text("id;region\n1;north\n")
    blocks = ["--blocks", "value(region)", "--unit-stays"]
    assert opened(table, "id int, region string", "--file-form", "separator=;", *blocks) == 0
    capsys.readouterr()
    assert run(app, ["bind", "visits", "--file-form", "null=north", "--reason", "r", "--yes"]) == 2
    assert "may gain columns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{SECRET};12;fee\n", "has 1 value if the separator is a comma, and 3 if it is a semicolon"),
        (f"{SECRET},{SECRET}\n", "has one name more than once, at places 1, 2"),
        (f"{SECRET},,\n", "has text in 1 of 3 places, as a title above the header has"),
        (f"{SECRET},fee\n", "differs from the bound columns at place 1"),
        (f"{SECRET},1,2\n", "names 3 columns, and 2 are bound"),
        (f"{SECRET},\xe9\n", "is not in utf-8; declare its encoding"),
        ("", "is empty"),
        ("\r\nid,fee\n", "is empty"),
        (f"\xff\xfe{SECRET}", "is in an encoding of several bytes a character; write the files in utf-8"),
        (f"\x1f\x8b{SECRET}", "is no text: the file looks like one that gzip compressed, and its name does not end"),
        (f"PK\x03\x04{SECRET}", "is no text: the file looks like a zip file or a workbook"),
        (f"sep=;\n{SECRET};2\n", "tells a spreadsheet the separator, and is no header"),
    ],
)
def test_open_refuses_a_first_line_without_a_word_of_it(
    table: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (table / "v1" / "a.csv").write_bytes(text.encode("latin-1"))
    assert opened(table, "id string, fee double") == 2
    line = capsys.readouterr().err
    assert told in line
    assert line.count("\n") == 1
    assert SECRET not in line
    assert PrivacyLedger(f"sqlite:///{table.parent / 'ledger.db'}").accounts() == ()


def test_names_in_another_unicode_form_are_told_from_others(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "v1" / "a.csv").write_text("id,Gro\u0308\u00dfe\n")
    assert opened(table, "id string, Gr\u00f6\u00dfe double") == 2
    said = capsys.readouterr().err
    assert "has the same letters as the bound columns, in another Unicode form at place 2; copy the names" in said
    (table / "v1" / "a.csv").unlink()
    pq.write_table(pa.table({"id": ["a"], "Gro\u0308\u00dfe": [1.0]}), table / "v1" / "a.parquet")
    assert opened(table, "id string, Gr\u00f6\u00dfe double", form="parquet") == 2
    assert "it is there in another Unicode form of the same letters" in capsys.readouterr().err


def test_a_misspelt_column_of_footers_is_suggested(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": ["a"], "propensity": [1.0]}), table / "v1" / "a.parquet")
    assert opened(table, "id string, propencity double", form="parquet") == 2
    assert "got 'propencity'; must be a column of at least one file, because the account binds it" in (
        said := capsys.readouterr().err
    )
    assert "did you mean 'propensity'?" in said


def test_what_was_looked_at_is_said_as_it_is(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "v1" / "a.csv").write_text("id,fee\n")
    (table / "v1" / "b.csv").touch()  # no row, and no header
    assert opened(table, "id string, fee double") == 0
    assert "there are 2 files, and the first line of each was looked at" in capsys.readouterr().err
    (table.parent / "packed" / "v1").mkdir(parents=True)
    (table.parent / "packed" / "v1" / "a.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    described = ["--table", str(table.parent / "packed"), "--format", "csv", "--columns", "n int", "--yes"]
    assert run(app, ["open", "packed", "--epsilon", "1", *described]) == 0
    assert (
        "1 file, whose first lines cannot be uncompressed here, so that none was looked at" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'[{{"id": "{SECRET}"}},\n', "is no JSON object by itself, as in a file that is one array"),
        (f'{{\n  "id": "{SECRET}"\n}}\n', "is no JSON object by itself"),
        (f"\xff\xfe{SECRET}", "is in an encoding of several bytes a character"),
    ],
)
def test_files_that_are_no_lines_of_json_are_not_bound(
    table: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (table / "v1" / "a.json").write_bytes(text.encode("latin-1"))
    assert opened(table, "id string", form="json") == 2
    line = capsys.readouterr().err
    assert told in line
    assert SECRET not in line
    for good in (f'\ufeff{{"id": "{SECRET}"}}\n', f'{{"id": "{SECRET}"}},\n', ""):
        (table / "v1" / "a.json").write_text(good)
        assert opened(table, "id string", form="json") == 0


@pytest.mark.parametrize(("log", "form"), [("_delta_log", "Delta"), (".hoodie", "Hudi")])
@pytest.mark.parametrize("where", ["", "v1/"])
def test_a_table_whose_log_says_which_files_count_is_no_folder_of_files(
    table: Path, capsys: pytest.CaptureFixture[str], log: str, form: str, where: str
) -> None:
    pq.write_table(pa.table({"id": ["a"]}), table / "v1" / "a.parquet")
    (table / where / log).mkdir()
    (table / where / log / "0.json").touch()
    assert opened(table, "id string", form="parquet") == 2
    assert f"must not be the folder of a {form} table" in capsys.readouterr().err


def test_files_at_two_depths_are_refused_by_open(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "v1" / "a.csv").write_text("id,fee\n")
    (table / "v1" / "day=1").mkdir()
    (table / "v1" / "day=1" / "b.csv").write_text("id,fee\n")
    assert opened(table, "id string, fee double, day string") == 2
    assert "must have all its files at the same depth" in capsys.readouterr().err


def test_a_table_without_files_or_in_another_store_is_bound_and_said_so(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened(table, "id string") == 0
    assert "there are no files yet, so that none was looked at" in capsys.readouterr().err
    described = ["--table", "hdfs://lake/visits", "--format", "csv", "--columns", "id int", "--yes"]
    assert run(app, ["open", "others", "--epsilon", "1", *described]) == 0
    assert "its files cannot be listed from this machine" in capsys.readouterr().err


def test_open_warns_where_another_account_has_the_same_columns(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opened(table, "id string, fee double") == 0
    assert "warning" not in capsys.readouterr().err
    moved = ["--table", str(table.parent / "moved"), "--format", "csv", "--columns", "FEE double, id string", "--yes"]
    assert run(app, ["open", "copy", "--epsilon", "1", *moved]) == 0
    said = capsys.readouterr().err
    assert f"warning: file://{table} of account visits has the same columns and types" in said
    assert f"`dp-budget bind visits --table file://{table.parent}/moved`" in said
    for number in range(3):
        more = ["--table", str(table.parent / f"more-{number}"), *moved[2:]]
        assert run(app, ["open", f"more-{number}", "--epsilon", "1", *more]) == 0
    assert capsys.readouterr().err.splitlines().count("warning: so have 1 other table") == 1
    other = ["--table", str(table.parent / "other"), "--format", "csv", "--columns", "fee int, id string", "--yes"]
    assert run(app, ["open", "other", "--epsilon", "1", *other]) == 0
    assert "warning" not in capsys.readouterr().err
