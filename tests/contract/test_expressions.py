from __future__ import annotations

import datetime
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions import tree as tree
from spark_jobs.contract.expressions.filters import check_filter
from spark_jobs.contract.expressions.language import FUNCTIONS
from spark_jobs.contract.expressions.parser import check_feature, parse

NODES = (
    tree.ColumnReference,
    tree.Literal,
    tree.Compare,
    tree.And,
    tree.Or,
    tree.Not,
    tree.IsNull,
    tree.In,
    tree.Contains,
    tree.Arithmetic,
    tree.Function,
    tree.Case,
    tree.Cast,
)


def column(name: str) -> tree.ColumnReference:
    return tree.ColumnReference(name=name)


def literal(value: object) -> tree.Literal:
    return tree.Literal(value=value)


def holds(text: str, at: int | None = None) -> tree.Contains:
    return tree.Contains(part=column("a"), text=text, at=at)


def long(characters: int, op: str = ">=") -> tree.Compare:
    return tree.Compare(op=op, left=tree.Function(name="LENGTH", arguments=(column("a"),)), right=literal(characters))


def nodes(expression: tree.Expression) -> list[tree.Expression]:
    return [expression, *(node for child in tree.children(expression) for node in nodes(child))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", column("a")),
        ("`a b`", column("a b")),
        ("`a.b`", column("a.b")),
        ("-5", literal(-5)),
        ("-9223372036854775808", literal(-(2**63))),
        ("1.5e3", literal(1500.0)),
        (".5", literal(0.5)),
        ("'x'", literal("x")),
        (r"'it\'s'", literal("it's")),
        ("true", literal(True)),
        ("NULL", literal(None)),
        ("DATE '2026-01-31'", literal(datetime.date(2026, 1, 31))),
        ("TIMESTAMP '2026-01-31T12:00:00+02:00'", literal(datetime.datetime(2026, 1, 31, 10))),
        ("a = 1", tree.Compare(op="=", left=column("a"), right=literal(1))),
        ("a <> 1", tree.Compare(op="!=", left=column("a"), right=literal(1))),
        ("a and b and c", tree.And(parts=(column("a"), column("b"), column("c")))),
        ("a or b", tree.Or(parts=(column("a"), column("b")))),
        ("not a", tree.Not(part=column("a"))),
        ("a is null", tree.IsNull(part=column("a"))),
        ("a is not null", tree.Not(part=tree.IsNull(part=column("a")))),
        ("a in (1, -2)", tree.In(part=column("a"), values=(literal(1), literal(-2)))),
        ("a not in ('x')", tree.Not(part=tree.In(part=column("a"), values=(literal("x"),)))),
        ("a like 'x%'", holds("x", 1)),
        ("a like '%xy'", holds("xy", -2)),
        ("a not like '%x%'", tree.Not(part=holds("x"))),
        ("a like 'x'", tree.Compare(op="=", left=column("a"), right=literal("x"))),
        ("a like ''", tree.Compare(op="=", left=column("a"), right=literal(""))),
        ("a like '__'", long(2, "=")),
        ("a like '%'", long(0)),
        ("a like '%_%'", long(1)),
        ("a like '_x'", tree.And(parts=(long(2, "="), holds("x", 2)))),
        ("a like 'x_y%z_'", tree.And(parts=(long(5), holds("x", 1), holds("y", 3), holds("z", -2)))),
        ("a / 2", tree.Arithmetic(op="/", left=column("a"), right=literal(2))),
        ("-a", tree.Arithmetic(op="*", left=literal(-1), right=column("a"))),
        ("pow(a, 2)", tree.Function(name="POWER", arguments=(column("a"), literal(2)))),
        ("log(a)", tree.Function(name="LN", arguments=(column("a"),))),
        ("year(a)", tree.Function(name="YEAR", arguments=(column("a"),))),
        ("cast(a as double)", tree.Cast(part=column("a"), to=tree.CastType.DOUBLE)),
        ("try_cast(a as int)", tree.Cast(part=column("a"), to=tree.CastType.INT)),
        ("case when a then 1 end", tree.Case(branches=((column("a"), literal(1)),), otherwise=literal(None))),
    ],
)
def test_parse_rebuilds_what_is_allowed(text: str, expected: tree.Expression) -> None:
    assert parse(text) == expected
    if expected != tree.Literal(value=None):
        check_filter(text)
    check_feature(text)


def test_between_is_two_comparisons() -> None:
    assert parse("a between 1 and b") == parse("a >= 1 and a <= b")


def test_a_case_with_a_value_is_comparisons() -> None:
    assert parse("case a when 1 then b else c end") == parse("case when a = 1 then b else c end")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_list_parses(name: str) -> None:
    arguments = "a, b" if name in ("POWER", "LEAST", "GREATEST", "COALESCE") else "a"
    expression = parse(f"{name.lower()}({arguments})")
    assert isinstance(expression, tree.Function)
    assert expression.name == name


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a in (select 1)", "QUERY of IN"),
        ("a > (select max(b) from t)", "SUBQUERY"),
        ("exists(select 1)", "EXISTS"),
        ("select 1", "SELECT"),
        ("with x as (select 1) select 1", "SELECT"),
        ("values (1)", "VALUES"),
        ("sum(a) > 1", "SUM"),
        ("count(*) > 1", "COUNT"),
        ("row_number() over (order by a) = 1", "WINDOW"),
        ("raise_error('x')", "RAISE_ERROR"),
        ("assert_true(a)", "ASSERT_TRUE"),
        ("java_method('java.lang.System', 'exit')", "JAVA_METHOD"),
        ("my_udf(a)", "MY_UDF"),
        ("rand() < 0.5", "RAND"),
        ("uuid() = 'x'", "UUID"),
        ("current_timestamp() > a", "CURRENT_TIMESTAMP"),
        ("current_date > a", "CURRENT_DATE"),
        ("transform(a, x -> x + 1)", "TRANSFORM"),
        ("exists(a, x -> x > 1)", "EXISTS"),
        ("explode(a)", "EXPLODE"),
        ("a[0]", "BRACKET"),
        ("*", "STAR"),
        (":p = a", "PLACEHOLDER"),
        ("? = a", "PLACEHOLDER"),
        ("a = 1; drop table t", "semicolon"),
        ("a = 1;", "semicolon"),
        ("a = 1 -- b", "comments"),
        ("a /* b */ = 1", "comments"),
        ("/*+ hint */ a = 1", "comments"),
        ("a rlike '(x+)+'", "REGEXP_LIKE"),
        ("a like b", "pattern"),
        ("a like '%x%y%'", "LIKE takes"),
        ("a like 'x%y%z'", "LIKE takes"),
        ("a like '%x_y%'", "LIKE takes no _"),
        (r"a like 'x\\%'", "LIKE takes"),
        ("a like 'x' escape '!'", "ESCAPE"),
        ("a like any ('x')", "ANY"),
        ("a in ()", "IN must"),
        ("a in (null)", "IN must"),
        ("a in (b)", "IN must"),
        ("a is true", "IS is allowed"),
        ("a <=> b", "NULL SAFE EQ"),
        ("a % 2 = 0", "MOD"),
        ("a div 2 = 0", "INT DIV"),
        ("cast(a as decimal(10, 2))", "cast to this type"),
        ("cast(a as array<int>)", "cast to this type"),
        ("cast(a as string format 'x')", "FORMAT"),
        ("cast('tomorrow' as date)", "is not a date"),
        ("trim(both 'x' from a)", "TRIM"),
        ("to_date(a)", "TO_DATE"),
        ("year(to_date(a, 'yyyy'))", "TO_DATE"),
        ("a = 9223372036854775808", "out of range"),
        ("a = 1e999", "out of range"),
        ("least(a) = 1", "two or more arguments"),
        ("a = 'x' 'y'", "CONCAT"),
        ("a ->> 'x'", "JSON_EXTRACT_SCALAR"),
        ("a +", "must be one SQL expression"),
        ("", "must be one SQL expression"),
        ("a = '\ud800'", "must be one SQL expression"),
    ],
)
def test_parse_refuses_everything_else_by_name(text: str, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text, what="where")
    line = str(refused.value)
    assert named in line
    assert line.startswith("where: ")
    assert "\n" not in line


def test_a_refusal_lists_what_is_allowed() -> None:
    with pytest.raises(InvalidRequest, match="COALESCE.*YEAR") as refused:
        check_filter("rand() < 0.5")
    assert refused.value.field == "where"
    with pytest.raises(InvalidRequest) as refused:
        check_feature("sum(a)")
    assert refused.value.field == "model.coefficients"


def test_a_long_chain_parses() -> None:
    expression = parse(" or ".join(["a = 1"] * 600))
    assert isinstance(expression, tree.Or)
    assert len(expression.parts) == 600


@pytest.mark.parametrize(
    "text",
    [
        "a" + " + a" * 300,
        "(" * 300 + "a" + ")" * 300,
        "(" * 21 + "a" + ")" * 21,
        "case when " * 21 + "a" + " then b end" * 21,
        "coalesce(null, " * 600 + "a",
        "(" * 30 + "a" + " between 1 and 2)" * 30,
        "case " * 30 + "a" + " when 1 then 1 when 2 then 2 end" * 30,
        "not " * 2000 + "a",
        " or ".join(["a = 1"] * 900),
        "a = '" + "x" * 10_000 + "'",
        "a like '" + "_" * 201 + "'",
        "a like '" + "x" * 201 + "%'",
        # what a pattern repeats counts each time
        "case when " * 6 + "a" + " like 'x_x_x_x_x%' then 'x' end" * 6,
    ],
)
def test_parse_refuses_what_is_too_large(text: str) -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        parse(text)


def test_the_bound_on_nesting_does_not_depend_on_who_calls() -> None:
    """A request that the worker accepts, from wherever it calls, the application accepts too."""

    def called(depth: int) -> tree.Expression:
        return called(depth - 1) if depth else parse("abs(" * 20 + "a" + ")" * 20)

    assert called(0) == called(300)


def test_columns_are_named_once_in_order() -> None:
    expression = parse("b > 1 and coalesce(`a c`, b) in (1) and case when d like 'x' then e else -f end > 0")
    assert tree.columns(expression) == ("b", "a c", "d", "e", "f")


WORDS = (
    "a b `c d` 1 -2.5 'x' \"y\" null true ( ) , = <> < >= and or not in between is like escape + - * / % || -> => :: ; "
    "case when then else end cast try_cast as int date timestamp select from where over partition by exists all any "
    "sum( lower( coalesce( rand( raise_error( least( year( -- /* */ ? :p @v $1 {{ }} [ ] . * ~ ! & ^ interval distinct "
    "lateral view pivot using unnest( array( struct( map( filter( x'00' r'x' 1L 2BD 1e400 \\ ' \" ` \n \x00"
)
FRAGMENTS = st.lists(st.sampled_from(WORDS.split(" ")), max_size=12).map(" ".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(FRAGMENTS, st.text(max_size=40)))
def test_any_text_is_rebuilt_from_our_types_or_refused_in_one_line(text: str) -> None:
    line, found = "", []
    try:
        found = nodes(parse(text))
    except InvalidRequest as refused:
        line = str(refused)
    assert bool(line) != bool(found)
    assert "\n" not in line
    assert len(line) < 1000
    assert all(type(node) in NODES for node in found)


def test_the_parser_is_loaded_when_an_expression_is_read() -> None:
    program = "import sys, spark_jobs.contract; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x != NULL", "IS NOT NULL"),
        ("NOT (x = NULL)", "IS NOT NULL"),
        ("age BETWEEN 10 AND 1", "no value of age is above 10 and below 1"),
        ("x > 3 AND (y = 1 AND 3 >= X)", "no value of x"),
        ("x = 'a' AND x IN ('b', 'c')", "no value of x meets all of its conditions"),
        ("false", "a constant that is not true"),
        ("null", "a constant that is not true"),
        ("1 > 2", "compares two constants"),
        ("x = NULL OR age BETWEEN 9 AND 8", "IS NOT NULL"),
        ("day = '{{ ds }}'", "must not contain a template"),
    ],
)
def test_a_filter_that_is_never_true_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        check_filter(text)


@pytest.mark.parametrize(
    "text",
    [
        "x IS NULL", "x = 'a' AND x IN ('a', 'b')", "x >= 5 AND x <= 5", "x > 5 OR x = NULL", "x = '5' AND x = 5",
        "age BETWEEN 1 AND 10 AND age != 3", "true", "NOT (x > 3 AND x < 2)", "CASE WHEN a THEN x = NULL ELSE b END",
    ],
)  # fmt: skip
def test_a_filter_that_may_be_true_is_not_refused(text: str) -> None:
    check_filter(text)
