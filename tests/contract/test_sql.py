"""SELECT statements as requests, and their answers from released figures, beside pandas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import ColumnReference, Compare, Literal
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.sql.answer import SqlAnswer, answer, check_answer
from spark_jobs.contract.sql.statement import SqlStatement
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

REGIONS = ["north", "south", "east"]
GROUPED = "SELECT region, COUNT(*) AS n, AVG(spend) FROM customers GROUP BY region"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    random = np.random.default_rng(5)
    region = random.choice(REGIONS, 4000, p=[0.6, 0.3, 0.1])
    spend = np.where(random.random(4000) < 0.1, np.nan, np.round(random.gamma(2, 10 + 5 * (region == "north")), 2))
    age, person = random.integers(18, 90, 4000), random.integers(0, 900, 4000)
    return pd.DataFrame({"region": region, "spend": np.clip(spend, 0, 200), "age": age, "person": person})


@pytest.fixture
def released(rows: pd.DataFrame) -> Callable[[str], SqlAnswer]:
    """The answer to a statement by a release with hardly any noise."""

    def ask(text: str) -> SqlAnswer:
        statement = SqlStatement.parse(text)
        [entry] = statement.fields(epsilon="1")["diagnostics"]
        bounds = {"spend": ([0, 200], 0.01), "age": ([18, 90], 1)}
        for dimension in entry["by"]:
            if dimension["column"] == "region":
                dimension["values"] = REGIONS
            if "width" in dimension:
                dimension["edges"] = list(range(0, 101, int(dimension.pop("width"))))
        columns: dict[str, Any] = {name: rows[name].to_numpy() for name in rows}
        for dimension in entry["by"]:
            if dimension["column"].startswith("CASE"):
                columns[dimension["column"]] = np.select([rows["age"] < 30, rows["age"] < 65], [0, 1], 2)
        for measure in entry["measures"]:
            if "bounds" not in measure and measure["figures"] != ["units"]:
                measure["bounds"], measure["step"] = bounds[measure["of"]]
            if measure["of"].startswith("CASE"):
                columns[measure["of"]] = (~rows["spend"].isna()).to_numpy().astype(float)
        options = AggregatesOptions.parse(entry)
        sums = AggregateSums.from_arrays(columns, by=options.by, measures=options.measures)
        result = aggregates.release(sums, epsilon="1e6", noise=SeededNoise(2))
        return answer(statement, json.loads(json.dumps(result.to_dict(), allow_nan=False)))

    return ask


def column(answered: SqlAnswer, name: str) -> list[Any]:
    return [row[answered.columns.index(name)] for row in answered.rows]


def test_a_statement_is_a_request() -> None:
    text = (
        "SELECT c.region, date_trunc('month', visited_at) AS m, COUNT(*) n, SUM(c.spend), AVG(spend), "
        "AVG(ABS(y - fitted)) "
        "FROM customers VERSION AS OF 'v1' AS c WHERE c.age >= 18 AND region <> 'west' GROUP BY 1, m "
        "HAVING n > 10 ORDER BY 3 DESC LIMIT 5;"
    )
    assert SqlStatement.parse(text).fields(epsilon="0.2") == {
        "account": "customers",
        "table": {"snapshot": {"path_version": "v1"}},
        "where": "age >= 18 AND region <> 'west'",
        "diagnostics": [
            {
                "kind": "aggregates",
                "by": [{"column": "region"}, {"column": "visited_at", "every": "month"}],
                "measures": [
                    {"of": "spend", "figures": ["mean", "sum"]},
                    {"of": "ABS(y - fitted)", "figures": ["mean"]},
                ],
            }
        ],
        "budget": {"epsilon": "0.2"},
    }


@pytest.mark.parametrize(
    ("version", "snapshot"), [("'2026-11'", {"path_version": "2026-11"}), ("3", {"table_version": 3})]
)
def test_the_version_is_in_the_text(version: str, snapshot: dict[str, Any]) -> None:
    fields = SqlStatement.parse(f"SELECT COUNT(*) FROM a VERSION AS OF {version}").fields(epsilon=1)
    assert fields["table"] == {"snapshot": snapshot}


@pytest.mark.parametrize(
    "other",
    [
        "SELECT AVG(spend) AS mean, region AS r FROM customers GROUP BY region",
        "select AVG(spend), Region, count(*) from customers group by `region` having count(*) > 3 order by 2 limit 1",
        "SELECT COUNT(spend), region, ROUND(AVG(spend), 1) FROM customers GROUP BY region",
    ],
)
def test_what_is_computed_of_released_figures_makes_no_other_request(other: str) -> None:
    assert SqlStatement.parse(other).fields(epsilon=1) == SqlStatement.parse(GROUPED).fields(epsilon=1)


def test_a_column_without_a_domain_is_refused_with_what_would_help() -> None:
    fields = SqlStatement.parse("SELECT page, COUNT(*) FROM visits VERSION AS OF 'v1' GROUP BY page").fields(epsilon=1)
    fields |= {"account": None, "table": {**fields["table"], "path": "/lake/visits"}}
    with pytest.raises(InvalidRequest) as refused:
        ReleaseRequest.parse(fields)
    assert "`dp-budget domains ACCOUNT --set \"page in ('a', 'b')\"`" in str(refused.value)
    assert "`by: [{column: page, keys: discover}]`, which needs a delta" in str(refused.value)
    discovered = {"kind": "aggregates", "by": [{"column": "page", "keys": "discover"}]}
    ReleaseRequest.parse({**fields, "diagnostics": [discovered], "budget": {"epsilon": 1, "delta": "1e-6"}})


def test_an_answer_is_what_pandas_has(released: Callable[[str], SqlAnswer], rows: pd.DataFrame) -> None:
    answered = released(
        "SELECT region, COUNT(*) AS n, COUNT(spend) AS paid, AVG(spend) AS mean, SUM(spend) / COUNT(*) AS each_row "
        "FROM customers GROUP BY region HAVING COUNT(*) > 600 ORDER BY mean"
    )
    groups = rows.groupby("region")["spend"]
    wanted = pd.DataFrame({"n": groups.size(), "paid": groups.count(), "mean": groups.mean(), "sum": groups.sum()})
    wanted = wanted[wanted["n"] > 600].sort_values("mean")
    assert column(answered, "region") == list(wanted.index)
    assert column(answered, "n") == pytest.approx(list(wanted["n"]), abs=0.01)
    assert column(answered, "paid") == pytest.approx(list(wanted["paid"]), abs=0.01)
    assert column(answered, "mean") == pytest.approx(list(wanted["mean"]), abs=0.001)
    assert column(answered, "each_row") == pytest.approx(list(wanted["sum"] / wanted["n"]), abs=0.001)
    for lower, upper, exact in zip(
        column(answered, "mean_lower"), column(answered, "mean_upper"), wanted["mean"], strict=True
    ):
        assert lower <= exact <= upper


def test_distinct_units_are_those_of_pandas(released: Callable[[str], SqlAnswer], rows: pd.DataFrame) -> None:
    text = "SELECT region, COUNT(*) AS n, COUNT(DISTINCT person) AS persons FROM customers GROUP BY 1 LIMIT 3"
    [entry] = SqlStatement.parse(text).fields(epsilon=1)["diagnostics"]
    assert entry["measures"] == [{"of": "person", "figures": ["units"]}]
    answered, groups = released(text), rows.groupby("region")["person"]
    assert column(answered, "persons") == pytest.approx(groups.nunique()[REGIONS].tolist(), abs=0.01)
    assert column(answered, "n") == pytest.approx(groups.size()[REGIONS].tolist(), abs=0.01)
    assert None not in column(answered, "n_lower") + column(answered, "persons_upper")
    beside = released("SELECT COUNT(DISTINCT person) AS persons, COUNT(spend) AS n, AVG(spend) FROM customers")
    known = rows.dropna(subset=["spend"])
    assert column(beside, "persons") == pytest.approx([known["person"].nunique()], abs=0.01)
    assert column(beside, "n") == pytest.approx([len(known)], abs=0.01)


def test_quantiles_are_those_of_pandas(released: Callable[[str], SqlAnswer], rows: pd.DataFrame) -> None:
    answered = released(
        "SELECT region, MEDIAN(spend) AS middle, PERCENTILE(spend, 0.9) AS high, AVG(spend) AS mean, COUNT(*) AS n, "
        "PERCENTILE_CONT(0.999) WITHIN GROUP (ORDER BY spend) - PERCENTILE_APPROX(spend, 1e-2) AS spread, "
        "MEDIAN(spend) / AVG(spend) AS ratio, quantile(spend, 0.90) AS again, "
        "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY spend) AS disc "
        "FROM customers GROUP BY region HAVING MEDIAN(spend) > 1 ORDER BY region"
    )
    groups = rows.groupby("region")["spend"]
    exact = {name: groups.quantile(level) for name, level in (("middle", 0.5), ("high", 0.9), ("again", 0.9))}
    exact |= {"disc": groups.median(), "spread": groups.quantile(0.999) - groups.quantile(0.01)}
    exact |= {"ratio": groups.median() / groups.mean()}
    known = [name for name in groups.groups if name in REGIONS]
    answered_of = dict(zip(column(answered, "region"), answered.rows, strict=True))
    for name, values in exact.items():
        for region in known:
            value = answered_of[region][answered.columns.index(name)]
            assert value == pytest.approx(values[region], abs={"spread": 8.0, "ratio": 0.01}.get(name, 0.3)), name
            if name in ("middle", "high"):
                low, high = (answered_of[region][answered.columns.index(f"{name}_{end}")] for end in ("lower", "upper"))
                assert low <= values[region] <= high
    [entry] = SqlStatement.parse("SELECT QUANTILE(x, 0.9), MEDIAN(x), SUM(x), percentile(x, .25) FROM a").fields(
        epsilon=1
    )["diagnostics"]
    assert entry["measures"] == [{"of": "x", "figures": ["sum", "p25", "p50", "p90"]}]
    text = "SELECT MEDIAN(ABS(y - f)) FROM a WHERE site != 'PERCENTILE' AND LEAST(x, y, 3) > 1"
    assert SqlStatement.parse(text).measures == ({"of": "ABS(y - f)", "figures": ["p50"]},)


@pytest.mark.parametrize("scaled", ["FLOOR(age / 20) * 20", "20 * FLOOR((age) / 20)", "FLOOR(age / 20)"])
def test_bins_are_those_of_floor(released: Callable[[str], SqlAnswer], rows: pd.DataFrame, scaled: str) -> None:
    text = f"SELECT {scaled} AS bin, COUNT(*) AS n FROM customers GROUP BY 1 HAVING bin >= 3 ORDER BY 1 DESC"
    [entry] = SqlStatement.parse(text).fields(epsilon=1)["diagnostics"]
    assert entry["by"] == [{"column": "age", "width": 20}]
    answered = released(text)
    exact = (rows["age"] // 20 * (20 if "*" in scaled else 1)).value_counts().sort_index(ascending=False)
    exact = exact[exact.index >= 3]
    assert column(answered, "bin") == exact.index.tolist()
    assert column(answered, "n") == pytest.approx(exact.tolist(), abs=0.01)


def test_cases_with_written_results_are_groups(released: Callable[[str], SqlAnswer], rows: pd.DataFrame) -> None:
    case = "CASE WHEN age < 30 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END"
    answered = released(f"SELECT {case} AS part, COUNT(*) AS n FROM customers GROUP BY {case} ORDER BY n")
    exact = pd.cut(rows["age"], [0, 30, 65, 100], right=False, labels=["young", "middle", "old"]).value_counts()
    assert column(answered, "part") == exact.index[::-1].tolist()
    assert column(answered, "n") == pytest.approx(exact[::-1].tolist(), abs=0.01)
    fields = SqlStatement.parse("SELECT COUNT(*) FROM a GROUP BY CASE WHEN x > 1 THEN 7 WHEN y = 'b' THEN 7 END").by
    assert fields[0].fields == {
        "column": "CASE WHEN x > 1 THEN 0 WHEN y = 'b' THEN 0 END", "edges": [0, 1], "other": True
    }  # fmt: skip
    assert [fields[0].value(label) for label in ("0 to 1", "other")] == [7, None]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("measures", "holds"),
    [
        ([("x", ["sum"])], 0.9),
        ([("x", ["sum"]), ("y", ["mean"])], 0.9),
        ([("x", ["sum", "sd"])], 0.905),
        ([("x", ["sum", "p50"])], 0.9),
    ],
    ids=["one", "two", "a variance", "a quantile"],
)
def test_intervals_of_all_rows_hold_as_often_as_stated(
    measures: list[tuple[str, list[str]]], holds: float, neighbours: Any
) -> None:
    """Of 20,000 cells of 40 rows, of which a quarter lacks a value; the standard error is 0.002."""
    cells = list(range(20_000))
    statement = SqlStatement.parse("SELECT COUNT(*) AS n, SUM(x) AS s FROM a GROUP BY g")
    given = [{"of": of, "bounds": [0, 1], "figures": figures} for of, figures in measures]
    columns = {"g": np.repeat(cells, 4), "x": np.tile([1.0, 0.5, 0.0, np.nan], len(cells))}
    columns["y"] = columns["x"]
    sums = AggregateSums.from_arrays(columns, by=[{"column": "g", "values": cells, "other": False}], measures=given)
    for name in ("rows", "incomplete", "sums", "value_counts"):
        object.__setattr__(sums, name, getattr(sums, name) * 10)
    result = aggregates.release(sums, epsilon=1, neighbours=neighbours, noise=SeededNoise(3)).to_dict()
    answered = answer(statement, result)
    ends = zip(column(answered, "n_lower"), column(answered, "n_upper"), strict=True)
    held = np.mean([lower <= 40 <= upper for lower, upper in ends])
    assert held == pytest.approx(holds, abs=0.008)


def test_variances_are_those_of_sql_and_of_pandas(released: Callable[[str], SqlAnswer], rows: pd.DataFrame) -> None:
    answered = released(
        "SELECT region, VAR_SAMP(spend) AS var_samp, VARIANCE(spend) AS variance, VAR_POP(spend) AS var_pop, "
        "STDDEV(spend) AS stddev, STDDEV_SAMP(spend) AS stddev_samp, STDDEV_POP(spend) AS stddev_pop "
        "FROM customers GROUP BY region HAVING region <> 'other' ORDER BY region"
    )
    groups = rows.groupby("region")["spend"]
    exact = {
        "var_samp": groups.var(), "variance": groups.var(), "var_pop": groups.var(ddof=0), "stddev": groups.std(),
        "stddev_samp": groups.std(), "stddev_pop": groups.std(ddof=0),
    }  # fmt: skip
    for name, values in exact.items():
        assert column(answered, name) == pytest.approx(values.to_list(), rel=1e-5)
        ends = (column(answered, f"{name}_{end}") for end in ("lower", "upper"))
        for lower, upper, value in zip(*ends, values, strict=True):
            assert lower <= value <= upper


def test_a_variance_of_a_sample_is_of_two_rows_at_least() -> None:
    statement = SqlStatement.parse("SELECT VARIANCE(x), VAR_POP(x) FROM a")
    measured = {"name": "variance", "of": "x", "values": [None], "lower": [0.0], "upper": [0.25]}
    weak = {
        "keys": [], "confidence": 0.9, "measures": [measured], "incomplete": [0.0], "count": [-1.0],
        "count_lower": [-1.0], "count_upper": [3.0],
    }  # fmt: skip
    assert answer(statement, weak).rows == ((None, 0.0, 0.5, None, 0.0, 0.25),)


def test_groups_that_are_weak_have_no_mean(released: Callable[[str], SqlAnswer]) -> None:
    answered = released("SELECT region, AVG(spend) AS mean FROM customers GROUP BY region ORDER BY 2 NULLS LAST")
    assert answered.rows[-1][0] == "other"
    assert answered.rows[-1][1] is None
    assert answered.to_csv().splitlines()[0] == "region,mean,mean_lower,mean_upper"
    assert list(answered.lines())[-1].startswith("other   -")


def test_the_order_and_the_limit_are_of_released_figures(released: Callable[[str], SqlAnswer]) -> None:
    answered = released("SELECT region r, COUNT(*) FROM customers GROUP BY r ORDER BY COUNT(*) DESC LIMIT 2")
    assert column(answered, "r") == ["north", "south"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("DELETE FROM a", "DELETE"),
        ("SELECT COUNT(*) FROM a; SELECT 1", "semicolon"),
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "JOIN"),
        ("SELECT COUNT(*) FROM a, b", "JOIN"),
        ("SELECT COUNT(*) FROM (SELECT 1)", "one account"),
        ("SELECT COUNT(*)", "one account"),
        ("WITH q AS (SELECT 1) SELECT COUNT(*) FROM q", "WITH"),
        ("SELECT COUNT(*) FROM a UNION SELECT 1", "UNION"),
        ("SELECT * FROM a", "STAR"),
        ("SELECT DISTINCT x FROM a", "DISTINCT"),
        ("SELECT MIN(x) FROM a", "MIN"),
        ("SELECT MAX(x) FROM a", "MAX"),
        ("SELECT SUM(x) OVER (PARTITION BY y) FROM a", "WINDOW"),
        ("SELECT COUNT(DISTINCT x, y) FROM a", "COUNT(DISTINCT"),
        ("SELECT COUNT(DISTINCT x + 1) FROM a", "COUNT(DISTINCT"),
        ("SELECT SUM(DISTINCT x) FROM a", "DISTINCT in the function SUM"),
        ("SELECT STDDEV(DISTINCT x) FROM a", "DISTINCT in the function STDDEV"),
        ("SELECT MEDIAN(DISTINCT x) FROM a", "DISTINCT in the function MEDIAN"),
        ("SELECT PERCENTILE(DISTINCT x, 0.9) FROM a", "DISTINCT in"),
        ("SELECT PERCENTILE(x, 0.9, y) FROM a", "PERCENTILE of more than a number and a level"),
        ("SELECT ROUND(percentile (LEAST(x, 5), 0.9, (y)), 2) FROM a", "PERCENTILE of more than a number and a level"),
        ("SELECT `PERCENTILE`(x, 0.9, 3) FROM a", "PERCENTILE of more than a number and a level"),
        ("SELECT COUNT(*) FROM a HAVING PERCENTILE(x, 0.5, 3, 4) > 1", "PERCENTILE of more than a number and a level"),
        ("SELECT APPROX_PERCENTILE(x, 0.9, 100) FROM a", "APPROX_PERCENTILE of more than a number and a level"),
        ("SELECT PERCENTILE(x, ARRAY(0.5, 0.9)) FROM a", "one level, written out"),
        ("SELECT PERCENTILE(x, y) FROM a", "one level, written out"),
        ("SELECT PERCENTILE(x, '0.5') FROM a", "one level, written out"),
        ("SELECT PERCENTILE(x, 1 / 2) FROM a", "one level, written out"),
        ("SELECT PERCENTILE(x, 0) FROM a", "the level 0 must be above 0"),
        ("SELECT PERCENTILE(x, 1.0) FROM a", "the level 1.0 must be above 0 and below 1"),
        ("SELECT PERCENTILE(x, 90) FROM a", "the level 90 must be above 0 and below 1"),
        ("SELECT PERCENTILE(x, 0.1234567) FROM a", "six decimals at most"),
        ("SELECT PERCENTILE_CONT(x, 0.9) FROM a", "cannot be answered"),
        ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x DESC) FROM a", "ascending order"),
        ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x, y) FROM a", "must have one expression"),
        ("SELECT MODE() WITHIN GROUP (ORDER BY x) FROM a", "WITHIN GROUP of another function"),
        ("SELECT MEDIAN(x) FILTER (WHERE y > 1) FROM a", "FILTER"),
        ("SELECT MEDIAN(RAND()) FROM a", "RAND"),
        ("SELECT AVG(x) FILTER (WHERE y > 1) FROM a", "FILTER"),
        ("SELECT COUNT(x, y) FROM a", "COUNT of several columns"),
        ("SELECT x FROM a GROUP BY x", "a count or a figure"),
        ("SELECT x, COUNT(*) FROM a", "x is neither grouped by"),
        ("SELECT COUNT(*) AS n, SUM(x) AS n FROM a", "each column of the answer a different name"),
        ("SELECT COUNT(*) FROM a WHERE x IN (SELECT y FROM b)", "IN"),
        ("SELECT COUNT(*) FROM a WHERE RAND() < 1", "RAND"),
        ("SELECT SUM(reflect('a')) FROM a", "REFLECT"),
        ("SELECT SUM(x) + (SELECT 1) FROM a", "SUBQUERY"),
        ("SELECT COUNT(*) + UUID() FROM a", "UUID"),
        ("SELECT COUNT(*) FROM a GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT COUNT(*) FROM a GROUP BY ROLLUP (x)", "ROLLUP"),
        ("SELECT COUNT(*) FROM a GROUP BY x + 1", "GROUP BY x + 1"),
        ("SELECT COUNT(*) FROM a GROUP BY FLOOR(x / y) * y", "GROUP BY FLOOR(x / y) * y"),
        ("SELECT COUNT(*) FROM a GROUP BY FLOOR(x / 10) * 9", "GROUP BY FLOOR(x / 10) * 9"),
        ("SELECT COUNT(*) FROM a GROUP BY FLOOR(x / 0) * 0", "GROUP BY FLOOR(x / 0) * 0"),
        ("SELECT COUNT(*) FROM a GROUP BY CASE WHEN x > 1 THEN y ELSE 'b' END", "GROUP BY CASE WHEN"),
        ("SELECT COUNT(*) FROM a GROUP BY CASE WHEN RAND() > 1 THEN 'a' ELSE 'b' END", "RAND"),
        ("SELECT x, COUNT(*) FROM a GROUP BY x, x", "twice"),
        ("SELECT date_trunc('hour', t), COUNT(*) FROM a GROUP BY 1", "DATE_TRUNC to hour"),
        ("SELECT COUNT(*) FROM a TABLESAMPLE (10 PERCENT)", "SAMPLE"),
        ("SELECT COUNT(*) FROM a TIMESTAMP AS OF '2026-01-01'", "version"),
        ("SELECT COUNT(*) FROM a LIMIT 1.5", "1.5"),
        ("SELECT COUNT(*) FROM a ORDER BY 2", "no column 2"),
        ("SELECT COUNT(*) FROM a HAVING x > 1", "x is neither grouped by"),
        ("SELECT COUNT(*) FROM a -- all of them", "comments"),
        ("SELECT COUNT(*) FROM", "one SQL statement"),
        ("SELECT " + "(" * 60 + "COUNT(*)" + ")" * 60 + " FROM a", "nest"),
        ("SELECT COUNT(*) FROM a QUALIFY x = 1", "QUALIFY"),
        ("SELECT COUNT(*) FROM a LATERAL VIEW explode(x) t AS y", "LATERAL"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_its_name(text: str, named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SqlStatement.parse(text)
    assert refused.value.field == "sql"
    assert named in refused.value.requirement, refused.value.requirement


def test_a_version_is_named_once() -> None:
    statement = SqlStatement.parse("SELECT COUNT(*) FROM a VERSION AS OF 'v1'")
    with pytest.raises(InvalidRequest, match="partition"):
        statement.fields(epsilon=1, partition={"day": "1"})


@pytest.mark.parametrize("name", ["a\"b'c", "x;--", "f0", "released", "AVG"])
def test_an_odd_name_is_only_a_name(released: Callable[[str], SqlAnswer], name: str) -> None:
    answered = released(f"SELECT COUNT(*) AS `{name}`, 'it\\'s' AS text FROM customers")
    assert answered.columns == (name, f"{name}_lower", f"{name}_upper", "text")
    assert column(answered, "text") == ["it's"]


@pytest.mark.parametrize("name", ["unit price", "order", "a-b", "größe", "x.y"])
def test_a_column_of_any_name_is_read_as_itself(name: str) -> None:
    statement = SqlStatement.parse(f"SELECT AVG(`{name}`) FROM customers WHERE `{name}` > 1")
    [measure] = statement.measures
    assert parse(measure["of"]) == ColumnReference(name=name)
    assert parse(str(statement.where)) == Compare(op=">", left=ColumnReference(name=name), right=Literal(value=1))


@pytest.mark.parametrize("column", ["CAST(COUNT(*) AS STRUCT<a: INT>)", "ROUND(COUNT(*), 1, 2)"])
def test_what_sqlite_cannot_compute_is_refused_before_anything_is_charged(column: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_answer(SqlStatement.parse(f"SELECT {column} AS n FROM customers"))
    assert refused.value.field == "sql"


def test_an_end_of_an_interval_has_a_name_of_its_own() -> None:
    with pytest.raises(InvalidRequest, match="each column of the answer a different name"):
        SqlStatement.parse("SELECT COUNT(*) AS n, SUM(x) AS N_lower FROM customers")


def test_a_filter_is_one_of_the_allow_list() -> None:
    where = SqlStatement.parse("SELECT COUNT(*) FROM a t WHERE NOT (t.x LIKE 'a%' OR t.y BETWEEN 1 AND 2)").where
    assert parse(str(where)) == parse("NOT (x LIKE 'a%' OR y BETWEEN 1 AND 2)")
