"""Public lookups: one row a key, a hash of their own, groups that are their values; and JOIN in a statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.options.lookups import MAX_ENTRIES, Lookup
from spark_jobs.contract.public_tables import read_lookup
from spark_jobs.contract.sql.answer import answer
from spark_jobs.contract.sql.statement import SqlStatement
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

ENTRIES = [["10115", "north"], ["80331", "south"], [20095, "north"], ["01067", 7]]
LOOKUP = {"name": "regions", "key": "zip", "value": "region", "entries": ENTRIES}
JOINED = "SELECT r.region, COUNT(*) FROM customers JOIN regions AS r ON customers.zip = r.zip GROUP BY r.region"


def test_its_hash_is_that_of_its_content_alone() -> None:
    lookup = Lookup.parse(LOOKUP)
    assert lookup == Lookup.parse(lookup.model_dump(mode="json"))
    assert lookup.sha256 == Lookup.parse({**LOOKUP, "name": "another"}).sha256
    others = ({"key": "plz"}, {"value": "land"}, {"entries": ENTRIES[:3]}, {"entries": [*ENTRIES[:3], ["01067", "7"]]})
    hashes = {Lookup.parse({**LOOKUP, **one}).sha256 for one in others}
    assert len(hashes - {lookup.sha256}) == len(others)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"entries": [*ENTRIES, ["10115", "south"]]}, "got '10115'; must have one row for each key"),
        ({"entries": [*ENTRIES, ["20095", "north"]]}, "got '20095'; must have one row for each key"),
        ({"entries": []}, "got '0 rows'; must be from 1 to 100,000"),
        ({"entries": [[key, "x"] for key in range(MAX_ENTRIES + 1)]}, "got '100,001 rows'; must be from 1 to 100,000"),
        ({"entries": [["a", ""]]}, "must have a value in each row"),
        ({"entries": [["a", None]]}, "must have a value in each row"),
        ({"entries": [[None, "a"]]}, "must have a key in each row"),
        ({"entries": [[1.5, "a"]]}, "must have a key in each row"),
        ({"entries": ["ab"]}, "must be a list of keys, each with its value"),
        ({"entries": None}, "names a registered lookup, which only the ledger knows"),
        ({"sha256": "0" * 64}, "must be the hash of the lookup's content, which is "),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_no_map_is_refused_in_a_line(changes: dict[str, Any], line: str) -> None:
    entry = {"kind": "aggregates", "by": [{"column": "zip", "lookup": {**LOOKUP, **changes}}]}
    with pytest.raises(InvalidRequest) as refused:
        AggregatesOptions.parse(entry)
    assert line in str(refused.value)
    assert "by" in refused.value.field
    assert "\n" not in str(refused.value)


def test_its_values_are_the_groups_and_give_the_dimension_its_name() -> None:
    by = [{"column": "zip", "lookup": LOOKUP}, {"column": "zip", "values": ["10115"]}]
    options = AggregatesOptions.parse({"kind": "aggregates", "by": by, "marginals": [["region"], ["zip"]]})
    assert options.by[0].labels == ("north", "south", "7", "other")
    assert options.tables(options.by) == ((0, 1), (0,), (1,))
    for bad, line in (
        ([{"column": "zip", "lookup": LOOKUP, "values": ["a"]}], "exactly one of values, edges, every and lookup"),
        ([{"column": "zip", "lookup": LOOKUP}, {"column": "region", "values": ["a"]}], "must be listed only once"),
        ([{"column": "zip", "lookup": {**LOOKUP, "entries": [["1", "other"]]}}], "must not be listed"),
        ([{"column": "zip", "lookup": "regions"}], "names a registered lookup, which only the ledger knows"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            AggregatesOptions.parse({"kind": "aggregates", "by": bad})
        assert line in str(refused.value)


def test_a_table_without_one_is_written_as_before() -> None:
    plain = AggregatesOptions.parse({"kind": "aggregates", "by": [{"column": "zip", "values": ["10115"]}]})
    assert "lookup" not in plain.model_dump(mode="json")["by"][0]
    sums = AggregateSums.from_arrays({"zip": np.array(["10115"])}, by=plain.by)
    assert "lookups" not in aggregates.release(sums, epsilon="1", noise=SeededNoise(1)).to_dict()


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_join_has_the_answer_of_a_left_join_in_pandas(join: str) -> None:
    random = np.random.default_rng(3)
    zips = random.choice(["10115", "80331", "20095", "01067", "99999"], 5000)
    rows = pd.DataFrame({"zip": np.where(random.random(5000) < 0.1, None, zips), "spend": random.gamma(2, 20, 5000)})
    text = (
        f"SELECT r.region, COUNT(*) AS n, AVG(c.spend) AS mean FROM customers c {join} regions r ON r.zip = c.zip "
        "GROUP BY r.region HAVING COUNT(*) > 0 ORDER BY 1"
    )
    statement = SqlStatement.parse(text)
    [entry] = statement.fields(epsilon="1")["diagnostics"]
    assert entry["by"] == [{"column": "zip", "lookup": {"name": "regions", "key": "zip", "value": "region"}}]
    entry["by"][0]["lookup"] = LOOKUP
    entry["measures"][0]["bounds"] = [0, 100]
    options = AggregatesOptions.parse(entry)
    sums = AggregateSums.from_arrays(
        {name: rows[name].to_numpy() for name in rows}, by=options.by, measures=options.measures
    )
    result = aggregates.release(sums, epsilon="1e8", noise=SeededNoise(2)).to_dict()
    stated = Lookup.parse(LOOKUP)
    assert result["lookups"] == [{"column": "zip", "lookup": "regions", "value": "region", "sha256": stated.sha256}]
    assert (result["by"], result["keys"]) == (["region"], [["north", "south", "7", "other"]])
    public = pd.DataFrame(ENTRIES, columns=["zip", "region"]).astype(str)
    merged = rows.merge(public, on="zip", how="left").fillna({"region": "other"})
    exact = merged.assign(spend=merged["spend"].clip(0, 100)).groupby("region")["spend"].agg(["size", "mean"])
    answered = answer(statement, json.loads(json.dumps(result)))
    assert answered.columns[0] == "region"
    assert [row[0] for row in answered.rows] == list(exact.index)
    assert [row[1] for row in answered.rows] == pytest.approx(exact["size"].tolist(), abs=1e-3)
    assert [row[4] for row in answered.rows] == pytest.approx(exact["mean"].tolist(), abs=1e-3)


def test_every_spelling_of_a_join_is_the_same_request() -> None:
    fields = SqlStatement.parse(JOINED).fields(epsilon="1")
    for text in (
        "SELECT regions.region, COUNT(*) FROM customers JOIN regions USING (zip) GROUP BY 1",
        "SELECT r.region AS land, COUNT(*) n FROM customers AS c INNER JOIN regions r ON r.zip = c.zip GROUP BY land",
        "select r.region, count(*) from customers left outer join regions r on zip = r.zip group by r.region limit 3",
    ):
        assert SqlStatement.parse(text).fields(epsilon="1") == fields


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (("customers.zip = r.zip", "customers.zip > r.zip"), "ON the equality of a column with the key of r"),
        (("customers.zip = r.zip", "customers.zip = r.zip AND r.n = 1"), "ON the equality of a column with the key"),
        (("customers.zip = r.zip", "r.zip = r.region"), "ON the equality of a column with the key of r"),
        (("customers.zip = r.zip", "customers.zip = customers.plz"), "ON the equality of a column with the key of r"),
        (("customers.zip = r.zip", "LENGTH(customers.zip) = r.zip"), "ON the equality of a column with the key of r"),
        (("JOIN", "RIGHT JOIN"), "JOIN must be JOIN or LEFT JOIN of a public lookup by its name"),
        (("JOIN", "FULL OUTER JOIN"), "JOIN must be JOIN or LEFT JOIN of a public lookup by its name"),
        (("JOIN", "LEFT ANTI JOIN"), "JOIN must be JOIN or LEFT JOIN of a public lookup by its name"),
        (("JOIN regions", "JOIN lake.regions"), "JOIN must be JOIN or LEFT JOIN of a public lookup by its name"),
        (("JOIN regions AS r", "JOIN (SELECT 1 AS zip) AS r"), "JOIN of something else than a public lookup"),
        (("r.zip GROUP", "r.zip JOIN regions AS r ON plz = r.zip GROUP"), "JOIN names r twice"),
        (("COUNT(*)", "AVG(r.region)"), "r.region may be used only in GROUP BY"),
        (("GROUP", "WHERE r.region = 'north' GROUP"), "r.region may be used only in GROUP BY"),
        (("GROUP BY r.region", "GROUP BY UPPER(r.region)"), "r.region may be used only in GROUP BY"),
        (("r.region", "r.zip"), "names the key of regions"),
        (("SELECT r.region, COUNT(*)", "SELECT COUNT(*)"), ""),
        ((" GROUP BY r.region", " GROUP BY customers.zip"), "JOIN regions has no column in GROUP BY"),
    ],
)
def test_other_joins_are_refused_by_name(changed: tuple[str, str], line: str) -> None:
    text = JOINED.replace(*changed)
    assert text != JOINED
    if not line:
        SqlStatement.parse(text)
        return
    if "has no column" in line:
        text = text.replace("SELECT r.region, ", "SELECT ")
    with pytest.raises(InvalidRequest) as refused:
        SqlStatement.parse(text)
    assert line in str(refused.value)


def test_a_public_file_is_read_by_its_titles(tmp_path: Path) -> None:
    table = pd.DataFrame({"zip": ["01067", "10115"], "n": [1, 2], "region": ["east", "north"]})
    entries = [["01067", "east"], ["10115", "north"]]
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.json").write_text(table.to_json(orient="records"))
    for suffix in ("csv", "parquet", "json"):
        file = str(tmp_path / f"a.{suffix}")
        assert read_lookup(file, key="zip", value="region") == {"key": "zip", "value": "region", "entries": entries}
        for titles, line in (
            ({}, "key: must be a column of the file, and may be left out only if the file has exactly two columns"),
            ({"key": "zip"}, "value: must be a column of the file"),
            ({"key": "zip", "value": "land"}, "value: got 'land'; must be a column of the file"),
            ({"key": "zip", "value": "zip"}, "value: got 'zip'; must be another column than the column of keys"),
        ):
            with pytest.raises(InvalidRequest) as refused:
                read_lookup(file, **titles)
            assert str(refused.value).startswith(line)
            assert "01067" not in str(refused.value)
    table[["zip", "region"]].to_csv(tmp_path / "two.csv", index=False)
    assert read_lookup(str(tmp_path / "two.csv"))["entries"] == entries


@pytest.mark.parametrize("content", ["zip,zip\n1,2\n", "zip,region\n1\n", "", 'zip,region\n"1,2\n'])
def test_a_file_that_is_none_is_refused_without_its_content(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(content)
    with pytest.raises(InvalidRequest, match=r"must be a \.csv file, as its name says"):
        read_lookup(str(file))
    with pytest.raises(InvalidRequest, match=r"must end in \.csv, \.json, \.parquet"):
        read_lookup(str(tmp_path / "bad.txt"))
    with pytest.raises(InvalidRequest, match="must be a file that can be read"):
        read_lookup(str(tmp_path / "none.csv"))
