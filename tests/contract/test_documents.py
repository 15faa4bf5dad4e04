"""Documents are read as people mean them, or refused in one line with the place of the fault."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.documents import parse_json, parse_yaml, to_yaml
from spark_jobs.contract.request import ReleaseRequest

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_yaml_reads_back_what_was_written(data: object) -> None:
    assert parse_yaml(to_yaml(data)) == data


@given(plain)
def test_json_reads_back_what_was_written(data: object) -> None:
    assert parse_json(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("off", "off"),
        ("2026-11-21", "2026-11-21"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("0.1", Decimal("0.1")),
        ("1e-6", Decimal("1e-6")),
        (".5", Decimal("0.5")),
        ("true", True),
        ("~", None),
        ("'12'", "12"),
    ],
)
def test_yaml_scalar_is_what_a_person_means_by_it(text: str, value: object) -> None:
    read = parse_yaml(f"key: {text}")["key"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", ["010", "+3", "-0", "007"])
def test_a_number_that_is_written_otherwise_keeps_how_it_was_written(text: str) -> None:
    read = parse_yaml(f"key: {text}")["key"]
    assert (read, read.text) == (int(text), text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("diagnostics: [{kind: linear_regression, x: a, y: b, x_bounds: [0, 1], y_bounds: [0, 1], group_by: r, "
         "groups: [01067, 02139]}]", "diagnostics.groups: got '01067'; is read as the number 1067; write quotes"),
        ("label: {column: y, positive: 01, negative: 0}\ndiagnostics: auc", "label.positive: got '01'"),
        ("title: 007\ndiagnostics: ecdf", "title: got '007'"),
        ("diagnostics: [{kind: linear_fit, outcome: y, categorical: {r: [01, 02]}}]", "got '01'"),
        ("diagnostics: ecdf\nblocks: [010]", "blocks: got '010'"),
    ],
)  # fmt: skip
def test_keys_that_would_change_on_the_way_are_refused(fields: str, said: str) -> None:
    rest = "table: {path: /lake/t, snapshot: {path_version: v1}}\nbudget: {epsilon: 01}\n"
    with pytest.raises(InvalidRequest) as refused:
        ReleaseRequest.from_yaml(f"{rest}{fields}\n")
    assert said in str(refused.value)
    quoted = re.sub(r"(?<=[\[ ])(0\d+)", r"'\1'", fields)
    with suppress(InvalidRequest):  # for other reasons: these are parts of requests
        assert ReleaseRequest.from_yaml(f"{rest}{quoted}\n")


@pytest.mark.parametrize(
    "text",
    [
        "1:30",
        "010",
        "yes",
        "1_000",
        "1e5",
        "0.1",
        ".5",
        "true",
        "null",
        "",
        "2026-11-21",
        "\x85",
        "a\u2028b",
        "\ufeff",
        " ",
        "a\n",
        "é",
    ],
)
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert parse_yaml(to_yaml({"key": text})) == {"key": text}


BILLION_LAUGHS = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            parse_yaml,
            "a: 1\nb:\n  c: 1\n  c: 2",
            "got 'c'; must not repeat a key, but repeats one at line 4, column 3",
        ),
        (parse_yaml, BILLION_LAUGHS, "must have no anchors and aliases, but has one at line 1, column 4"),
        (parse_yaml, "a: [1,\n  b: }", "must be a YAML document, but has a syntax error at line 2, column 6"),
        (parse_yaml, "a: 1e999999999999", "got '1e999999999999'; must have numbers between"),
        (parse_yaml, "a: " + "9" * 5000, "must have numbers between"),
        (parse_yaml, "[" * 100_000, "must be nested at most 50 levels deep"),
        (parse_yaml, "[" * 60 + "]" * 60, "must be nested at most 50 levels deep"),
        (parse_yaml, b"\xff\xff", "must be a YAML document"),
        (parse_yaml, "!!python/object/apply:os.system [ls]", "must have no tags, but has one at line 1, column 1"),
        (parse_yaml, 'a: !!int "1_0"', "must have no tags, but has one at line 1, column 4"),
        (parse_yaml, "a: !!timestamp x", "must have no tags, but has one at line 1, column 4"),
        (parse_json, '{"a": 1,\n "a": 2}', "got 'a'; must contain each key only once"),
        (parse_json, '{"a": 1,\n "b" 2}', "must be a JSON document, but has a syntax error at line 2, column 6"),
        (parse_json, '{"a": 1e999999999999}', "got '1e999999999999'; must have numbers between"),
        (parse_json, '{"a": ' + "9" * 5000 + "}", "must have numbers between"),
        (parse_json, "[" * 100_000, "must be nested at most 50 levels deep"),
        (parse_json, '{"a": NaN}', "got 'NaN'; must have only finite numbers"),
        (parse_json, b"\xff\xfe\x00", "must be a JSON document in UTF-8"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(parse, text, message) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("request: ")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_a_document_without_end_is_refused_by_its_size(monkeypatch) -> None:
    monkeypatch.setattr("spark_jobs.contract.documents.MAX_BYTES", 10)
    for parse in (parse_json, parse_yaml):
        with pytest.raises(InvalidRequest, match="got '11 bytes'; must have at most 10"):
            parse("[1,2,3,4,5]")
