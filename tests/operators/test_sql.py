"""The operator that answers a SELECT: what it refuses when the DAG is parsed, and the request that it makes."""

from __future__ import annotations

import pytest

from dp_operators.operators import PrivateSqlOperator
from dp_operators.operators.sql import _with_statement
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.sql.statement import SqlStatement

TEXT = "SELECT region, COUNT(*) FROM customers VERSION AS OF '{{ ds }}' GROUP BY region"


def test_the_statement_and_the_other_parameters_make_the_request() -> None:
    operator = PrivateSqlOperator(task_id="ask", sql=TEXT, epsilon="0.2", output="/releases", title="Regions")
    rendered = SqlStatement.parse(operator.sql.replace("{{ ds }}", "2026-11-29"))
    fields = _with_statement(rendered, operator.request)
    assert fields == {
        "account": "customers",
        "table": {"snapshot": {"path_version": "2026-11-29"}},
        "diagnostics": [{"kind": "aggregates", "by": [{"column": "region"}], "measures": []}],
        "budget": {"epsilon": "0.2"},
        "output": "/releases",
        "title": "Regions",
    }
    assert "sql" in operator.template_fields


@pytest.mark.parametrize(
    ("sql", "others", "field"),
    [
        ("SELECT MAX(x) FROM customers", {}, "sql"),
        (TEXT, {"epsilon": "abc"}, "budget.epsilon"),
        (TEXT, {"where": "x > 1"}, "where"),
        (TEXT, {"account": "others"}, "account"),
    ],
)
def test_a_wrong_constant_is_an_import_error(sql: str, others: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PrivateSqlOperator(**{"task_id": "ask", "sql": sql, "epsilon": "1", **others})
    assert refused.value.field == field


def test_a_statement_with_templates_for_parts_is_read_when_the_task_runs() -> None:
    assert PrivateSqlOperator(task_id="ask", sql="SELECT {{ params.what }} FROM customers", epsilon="1").sql
