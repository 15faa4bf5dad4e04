"""The form of a table's files: what can be declared, and what is refused in one line."""

from __future__ import annotations

import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.first_line import fault_of, header_names
from spark_jobs.contract.tables import TableSource

SECRET = "Zebedee-4711"
BOUND = {"table": "/lake/t", "format": "csv", "columns": {"a": "int"}, "version": {"by": "path_version"}}


def test_options_state_a_form_and_add_to_an_earlier_one() -> None:
    options = ["separator=;", "thousands=.", "decimal=,", "null=NA", "null=?", "true=ja", "false=nein", "percent=yes"]
    form = FileForm.of_options([*options, "date=dd.MM.yyyy", "encoding=Latin-1", "trim=no"])
    assert (form.separator, form.thousands, form.null, form.trim) == (";", ".", ("NA", "?"), False)
    assert form.encoding == "iso8859-1"
    assert FileForm.parse(form.model_dump()) == form
    assert FileForm.of_options(["quote='"], form).model_dump() == {**form.model_dump(), "quote": "'"}
    assert "separator=;" in form.describe()
    assert FileForm().describe() == ""


def test_what_is_not_declared_leaves_no_trace_in_a_binding() -> None:
    plain = TableBinding.parse(BOUND)
    assert "file_form" not in plain.model_dump(mode="json")
    assert TableBinding.parse({**BOUND, "file_form": {}}) == plain
    assert TableBinding.parse({**BOUND, "file_form": {"separator": "comma"}}) == plain
    declared = TableBinding.parse({**BOUND, "file_form": {"separator": "semicolon"}})
    assert declared.model_dump(mode="json")["file_form"] == {"separator": ";"}
    source = TableSource.parse({"path": "/lake/t", "snapshot": {"path_version": "v1"}})
    assert source.completed(plain).file_form is None
    completed = source.completed(declared)
    assert completed.file_form == declared.file_form
    assert completed.completed(declared) == completed
    with pytest.raises(InvalidRequest, match=r"table\.\w+: is set by the account"):
        source.changed(file_form=declared.file_form).completed(plain)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("encoding=klingon", "must be utf-8 or an encoding of one byte"),
        ("encoding=utf-16", "must be utf-8 or an encoding of one byte"),
        ("encoding=shift_jis", "must be utf-8 or an encoding of one byte"),
        ("encoding=cp037", "must be utf-8 or an encoding of one byte"),
        ("encoding=rot13", "must be utf-8 or an encoding of one byte"),
        ("encoding=a\0b", "must be utf-8 or an encoding of one byte"),
        ("thousands=.", "must differ from decimal"),
        ("thousands=x", "must be a comma, a dot"),
        ("decimal=;", "must be a dot or a comma"),
        ("separator=ab", "must be one character"),
        ("separator=", "must be one character"),
        ('separator="', "must differ from quote"),
        ("date=%d/%m/%Y", "write it like dd/MM/yyyy"),
        ("date=dd/MM", "each once"),
        ("date=dd/MM/yyyy HH:mm", "each once"),
        ("timestamp=dd/MM/yyyy hh:mm", "each once"),
        ("timestamp=HH:mm", "each once"),
        ("trim=perhaps", "must be yes or no"),
        ("seperator=;", "did you mean 'separator'"),
        ("separator", "must be NAME=VALUE"),
        ("null=yes", "must have only one meaning"),
    ],
)
def test_a_form_that_no_file_has_is_refused_in_one_line(option: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        FileForm.of_options([option, *(["true=yes"] if option == "null=yes" else [])])
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("file-form")


@pytest.mark.parametrize(
    ("form", "file_form", "told"),
    [
        ("parquet", {"decimal": ","}, "describes csv and JSON files"),
        ("json", {"separator": ";"}, "describes csv files"),
        ("json", {"encoding": "cp1252"}, "describes csv files"),
    ],
)
def test_a_form_of_files_that_have_none_is_refused(form: str, file_form: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        TableBinding.parse({**BOUND, "format": form, "file_form": file_form})
    assert TableBinding.parse({**BOUND, "format": "json", "file_form": {"decimal": ","}}).file_form is not None


@pytest.mark.parametrize(
    "line",
    [
        f"{SECRET};12;3;0,5",
        f"{SECRET},{SECRET}",
        f"{SECRET},,,,",
        f",{SECRET},a",
        f"{SECRET}\x01,b",
        f"{SECRET}\0",
        f"{SECRET}\xff".encode("latin-1"),
        "",
    ],
)
def test_no_word_of_a_first_line_is_in_what_is_said_of_it(line: str | bytes) -> None:
    fault = fault_of(line.encode() if isinstance(line, str) else line, FileForm())
    assert fault is not None
    assert SECRET not in f"{fault.what} {fault.remedy}"


def test_a_header_is_read_as_its_form_says() -> None:
    assert header_names('\ufeff"a;b"; c ;d', FileForm(separator=";")) == ["a;b", "c", "d"]
    assert header_names(r'"a \"b\"", "c"', FileForm(escape="\\")) == ['a "b"', "c"]
    assert header_names("'a,b',c", FileForm(quote="'")) == ["a,b", "c"]
    assert header_names("x" * 200_000, FileForm()) == []
