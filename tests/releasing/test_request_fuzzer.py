"""Requests at random: no two of them read one row under two budgets.

A lake of real folders, two accounts, and texts of requests: spellings of paths and versions, schemas, blocks, units.
What a request is charged to is the product's word. What it reads is worked out here apart from the product: the folder
that its path leads to, whose rows are read by the types that the request ends up with, where its own predicate is true.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_operators.releasing.charged_terms import complete
from dp_operators.releasing.requests import check_request
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions import tree as tree
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.places import Place
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import TableSource
from tests.support.ledgers import new_ledger

ROWS = {"toy/v1": ["7", "8"], "toy/v2": ["7"], "secret/v1": ["7", "9"]}
"""Folders of the lake, and the region of each of their rows."""
TYPES = ("bigint", "double", "string")
EXAMPLES = 150


class World:
    """A lake, its accounts, and what earlier requests have read of it under which of them."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        for place in ROWS:
            (self.lake / place).mkdir(parents=True)
        (self.lake / "toy#").mkdir()
        (self.lake / "link").symlink_to(self.lake / "secret")
        (self.lake / "toy" / "away").symlink_to(self.lake / "secret" / "v1")
        self.ledger = new_ledger(folder / "ledger.db")
        for name in ("toy", "secret"):
            binding = TableBinding.parse(
                {
                    "table": f"file://{self.lake / name}",
                    "format": "csv",
                    "columns": {"region": "bigint", "person": "string"},
                    "version": {"by": "path_version"},
                }
            )
            output = str(folder / "releases" / name)
            self.ledger.open_account(
                name, epsilon="3", tables=(binding,), outputs=(output,), blocks="value(region)", unit_stays=True
            )
        self.paid: dict[tuple[str, int], tuple[str, str]] = {}
        self.accepted = 0

    def ask(self, fields: dict[str, Any]) -> None:
        """Ask for a release; every row that it would read was and will be read under one account and one block."""
        try:
            request = ReleaseRequest.parse(fields)
            request = complete(request, self.ledger)
            account = check_request(request, self.ledger).name
            predicate = parse(str(request.block_filter))
        except InvalidRequest:
            return
        self.accepted += 1
        types = {column.name: column.type for column in request.table.columns or ()}
        for row in self.rows_below(request.table.pinned.path):
            value = typed(ROWS[row[0]][row[1]], types["region"])
            if holds(predicate, {"region": value}):
                [block] = [name for name in request.blocks if holds(block_of(request, name), {"region": value})]
                paid = self.paid.setdefault(row, (account, block))
                assert paid == (account, block), f"row {row} was read under {paid} and under {(account, block)}"

    def rows_below(self, uri: str) -> Iterator[tuple[str, int]]:
        """The rows of every folder that a reader of this path meets: Hadoop normalises by text, the system by links."""
        root = Path(
            os.path.realpath(posixpath.normpath(uri.removeprefix("file:").removeprefix("//").partition("?")[0]))
        )
        for place, regions in ROWS.items():
            if (self.lake / place).is_relative_to(root):
                yield from ((place, number) for number in range(len(regions)))


def block_of(request: ReleaseRequest, name: str) -> tree.Expression:
    return parse(str(request.model_copy(update={"blocks": (name,)}).block_filter))


def typed(text: str, type_name: str) -> int | float | str:
    return {"bigint": int, "double": float}.get(type_name, str)(text)


def holds(condition: tree.Expression, row: dict[str, Any]) -> bool:
    """Whether the predicate of blocks by value is true of a row; a double is written as Spark writes it, 7.0."""
    match condition:
        case tree.In(part=tree.Cast(part=tree.ColumnReference(name=name), to=tree.CastType.STRING), values=values):
            return str(row[name]) in [value.value for value in values]
    raise NotImplementedError(condition)


ODD_PLACES = (
    *("{}/", "{}//", "./{}", "{}/../secret", "{}#/../secret", "{}?/../secret", "{}%2F..%2Fsecret", "{}/v1", "link"),
    *("{} ", "*", "t?y", "{}#", ""),
)
ODD_PREFIXES = ("FILE://", "file://localhost", "file://other", "hdfs://", "/")
ODD_VERSIONS = ("v1/", "away", "../secret/v1", "v1/../../secret/v1", "v%31", "v*", ".", "")
SCHEMAS = tuple({"region": name, "person": "string"} for name in TYPES)
ODD_BLOCKS = (("07",), (" 7", "7"), ("all",), ("7", "7.0", "8", "9"))
ODD_FIELDS = (
    {"unit": {"column": "person", "max_rows": 1}},
    {"neighbours": "replace_one"},
    {"block_expression": "value(person)"},
    {"where": "region >= 0 or true"},
)


@st.composite
def requests(draw: st.DrawFn, lake: Path, output: Path) -> dict[str, Any]:
    """A sound request with at most two things about it that are odd."""
    odd = draw(
        st.sets(st.sampled_from(["place", "prefix", "version", "blocks", "schema", "output", "field"]), max_size=2)
    )

    def pick(name: str, sound: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
        return draw(st.sampled_from(others if name in odd else sound))

    account = draw(st.sampled_from(["toy", "secret"]))
    place = pick("place", ("{}",), ODD_PLACES).format(account)
    columns = pick("schema", (None,), SCHEMAS)
    return {
        "account": account,
        "table": {
            "path": f"{pick('prefix', ('', 'file://', 'file:'), ODD_PREFIXES)}{lake}/{place}",
            "snapshot": {"path_version": pick("version", ("v1", "v2"), ODD_VERSIONS)},
            **({} if columns is None else {"columns": columns, "format": "csv"}),
        },
        "diagnostics": [{"kind": "ecdf", "column": "region", "bounds": [0, 10]}],
        "budget": {"epsilon": "0.01"},
        "blocks": pick("blocks", (("7",), ("7.0",), ("8", "9")), ODD_BLOCKS),
        "output": str(output / pick("output", (account,), ("toy", "secret"))),
        **pick("field", ({},), ODD_FIELDS),
    }


def fuzz(folder: Path, examples: int = EXAMPLES) -> World:
    world = World(folder)

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(requests(world.lake, folder / "releases"))
    def attack(fields: dict[str, Any]) -> None:
        world.ask(fields)

    attack()
    return world


@pytest.mark.slow
def test_no_two_requests_read_one_row_under_two_budgets(tmp_path: Path) -> None:
    world = fuzz(tmp_path)
    assert world.accepted >= 5, "the requests are not all refused"
    assert len({account for account, _ in world.paid.values()}) == 2
    assert not any(world.ledger.history(name) for name in ("toy", "secret")), "nothing was charged"


@pytest.mark.slow
def test_a_path_that_is_charged_as_one_table_and_read_as_another_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identity drops what follows `#`, and the reader keeps the text: the hole as it was."""
    true = Place.of_folder.__func__  # type: ignore[attr-defined]

    def planted(cls: type[Place], text: str, *, what: str = "path") -> Place:
        place = true(cls, text.partition("#")[0], what=what)
        return Place(identity=place.identity, path=text)

    monkeypatch.setattr(Place, "of_folder", classmethod(planted))
    monkeypatch.setattr(Place, "require_real", lambda self, **_: None)
    with pytest.raises(AssertionError, match="was read under"):
        fuzz(tmp_path)


@pytest.mark.slow
@pytest.mark.verify
def test_a_schema_of_the_requests_own_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block 7 as a whole number is block 7.0 as a double: two budgets for one row."""
    true = TableSource.completed

    def planted(self: TableSource, binding: TableBinding) -> TableSource:
        plain = TableSource(path=self.path, snapshot=self.snapshot)
        completed = true(plain, binding)
        return completed if self.columns is None else completed.model_copy(update={"columns": self.columns})

    monkeypatch.setattr(TableSource, "completed", planted)
    with pytest.raises(AssertionError, match="was read under"):
        fuzz(tmp_path)
