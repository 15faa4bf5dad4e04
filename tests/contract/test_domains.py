"""What a column may hold: one spelling that is read back, and contradictions that are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_text import columns_in
from spark_jobs.contract.domains import Domain, ListedValues, LogOdds, Period, ValueRange, parse_domain
from spark_jobs.contract.errors import InvalidRequest

EXAMPLES = {
    "churned string in ('yes','no')": "in ('yes', 'no')",
    "region string in @regions": "in @regions",
    "region string in @`sales regions`": "in @`sales regions`",
    "age int between 0 and 120": "between 0 and 120",
    "price double between 0 and 5000 step 0.01": "between 0 and 5000 step 0.01",
    "income double between 0 and 1e7 log": "between 0 and 10000000 log",
    "propensity double score": "between 0 and 1 score",
    "score double between 300 and 850 score": "between 300 and 850 score",
    "margin double logit": "logit",
    "visited_at timestamp between '2024-01-01' and '2030-01-01'": "between '2024-01-01' and '2030-01-01'",
    "grade int in (1, 2)": "in (1, 2)",
    "flag boolean in (true)": "in (true)",
    "city struct<name:string,zip:int>": None,
    "tags array<string> public": None,
}

numbers = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@st.composite
def ranges(draw: st.DrawFn) -> ValueRange:
    lower, step = draw(numbers), draw(st.sampled_from([None, Decimal("0.01"), Decimal(3), Decimal("1e-9")]))
    scale = draw(st.sampled_from([None, "score"] if step else [None, "log", "score"]))
    steps = draw(st.integers(1, 10**9))
    # exactly, beyond the precision of a context
    sign, digits, exponent = lower.as_tuple()
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = step or Decimal(1)
    common = min(int(exponent), int(size.as_tuple().exponent))
    upper = whole * 10 ** (int(exponent) - common) + steps * int(size.scaleb(-common))
    return ValueRange(lower=lower, upper=Decimal(f"{upper}e{common}"), step=step, scale=scale)


moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(9000, 1, 1)).map(lambda at: at.replace(microsecond=0))
domains = st.one_of(
    ranges(),
    st.lists(texts, min_size=1, unique=True).map(lambda values: ListedValues(values=tuple(values))),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True).map(
        lambda values: ListedValues(values=tuple(values))
    ),
    texts.filter(bool).map(lambda name: ListedValues(list=name)),
    st.just(LogOdds()),
    st.tuples(moments, moments)
    .filter(lambda ends: ends[0] < ends[1])
    .map(lambda ends: Period(start=ends[0].isoformat(), end=ends[1].isoformat())),
)


@given(domains)
def test_a_domain_is_read_back_from_its_text(domain: Domain) -> None:
    assert parse_domain(str(domain)) == domain
    assert str(parse_domain(str(domain))) == str(domain)


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_column_is_written_with_what_it_may_hold(text: str) -> None:
    [column] = columns_in(text)
    assert (None if column.domain is None else str(column.domain)) == EXAMPLES[text]
    bound = BoundColumn.parse(column.fields())
    assert BoundColumn.parse(bound.model_dump(mode="json")) == bound == BoundColumn.parse(bound.model_dump())


def test_columns_with_and_without_domains_stand_in_one_text() -> None:
    columns = columns_in(", ".join(EXAMPLES).replace("region string in @`", "r2 string in @`"))
    assert [column.type for column in columns[:4]] == ["string", "string", "string", "int"]
    assert columns[-1].public
    assert [str(column.domain) for column in columns if column.domain] == [text for text in EXAMPLES.values() if text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g string banana", "columns.g: got 'banana'; must be a domain ("),
        ("g banana", "columns.g: got 'banana'; must be a type that an engine knows"),
        ("v double not null comment 'x'", "columns.v: got \"not null comment 'x'\"; must be a domain ("),
        ("v double DEFAULT 1", "got 'DEFAULT 1'; must be a domain ("),
        ("a array<banana>", "must be a type that an engine knows"),
        ("age int between 0.5 and 120", "domain of age: got 'between 0.5 and 120'; must be a domain of values of"),
        ("age tinyint between 0 and 1000", "must be a domain of values of type tinyint"),
        ("age string between 0 and 120", "must be a domain of values of type string"),
        ("churned string in (1, 0)", "must be a domain of values of type string"),
        ("churned int in ('yes', 'no')", "must be a domain of values of"),
        ("d date between '2024-01-01 12:00:00' and '2025-01-01'", "must be a domain of values of type date"),
        ("n int logit", "must be a domain of values of"),
        ("p double between 0 and 1 step 0.3", "a step above 0 that divides the range"),
        ("p double between 1 and 0", "two numbers in ascending order"),
        ("p double between 0 and 1 sqrt", "got 'sqrt'; must be a domain ("),
        ("p double between 0 and 1 step 0.1 log", "a step or the scale log, not both"),
        ("p double between 0 and", "must be one of: in ("),
        ("c string in ('a', 'a')", "must be listed only once"),
        ("c string in ()", "must be one of: in ("),
        ("t timestamp between '2030-01-01' and '2024-01-01'", "in ascending order"),
        ("t timestamp between 'soon' and 'later'", "must be a date or a time"),
    ],
)  # fmt: skip
def test_what_is_no_type_or_domain_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        [BoundColumn.parse(column.fields()) for column in columns_in(text)]
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mapping_takes_domains_and_a_binding_without_them_is_as_before() -> None:
    fields = {"table": "/lake/t", "format": "parquet", "version": {"by": "path_version"}}
    binding = TableBinding.parse({**fields, "columns": {"age": "int between 0 and 120", "id": "int"}})
    assert binding.model_dump(mode="json")["columns"] == [
        {"name": "age", "type": "int", "domain": "between 0 and 120"}, {"name": "id", "type": "int"},
    ]  # fmt: skip
    assert TableBinding.parse(binding.model_dump(mode="json")) == binding
    assert [column.step for column in binding.columns] == [1, None]


def test_a_changed_domain_extends_a_binding_and_a_changed_type_does_not() -> None:
    fields = {"table": "/lake/t", "format": "parquet", "version": {"by": "path_version"}}
    older = TableBinding.parse({**fields, "columns": {"age": "int between 0 and 120", "id": "int"}})
    older.with_domains({"age": None, "id": parse_domain("in (1, 2)")}).require_extends(older)
    with pytest.raises(InvalidRequest, match="may gain columns"):
        TableBinding.parse({**fields, "columns": {"age": "bigint", "id": "int"}}).require_extends(older)
    with pytest.raises(InvalidRequest, match=r"must be a column.*did you mean 'age'"):
        older.with_domains({"agee": None})
