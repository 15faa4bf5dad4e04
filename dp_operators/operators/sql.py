"""The operator that answers a SELECT by a private release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.operators.requests import BUDGET, given_fields
from dp_operators.tasks.constants import check_constants, check_given, is_constant
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.sql.answer import answer, check_answer
from spark_jobs.contract.sql.statement import SqlStatement

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from dp_operators.tasks.events import ReleaseEvent

MAX_ROWS = 1_000
"""The most rows of an answer that XCom gets."""
OF_STATEMENT = ("account", "where", "diagnostics", "request", "label", "model", "scoring", "gate")
"""Parameters of a release that the statement gives, or that have no use beside it."""


class PrivateSqlOperator(ReleaseDiagnosticsOperator):
    """Releases what a SELECT of counts, sums, means and variances asks for, and returns the answer.

    The statement is read as a request for ``aggregates``, which is charged, released and published like any other
    request; no part of the statement's text reaches an engine that reads rows. What is computed from released figures
    (arithmetic, HAVING, ORDER BY, LIMIT) costs nothing. XCom gets what every release returns, and ``answer``: its
    ``columns``, its ``rows`` with the ends of confidence intervals, and their ``confidence``. An answer of more than
    1,000 rows is null; its rows are in the release's files.

    Args:
        sql: one SELECT; FROM names the account, and ``VERSION AS OF '{{ ds }}'`` the version of its table.
        epsilon: the full cost, as an exact decimal.
        delta: the full delta, of an account that has one.
        rho: the full cost in a ``zcdp`` account, in place of epsilon; the noise is then Gaussian.
        release: every other parameter of ``ReleaseDiagnosticsOperator`` but ``account``, ``where``, ``diagnostics``,
            ``request``, ``label``, ``model``, ``scoring`` and ``gate``.

    Raises:
        InvalidRequest: on construction: the statement cannot be answered, or a constant is wrong for all values of the
            templates.
        AirflowException: as ``ReleaseDiagnosticsOperator``.
    """

    template_fields: Sequence[str] = (*ReleaseDiagnosticsOperator.template_fields, "sql")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **ReleaseDiagnosticsOperator.template_fields_renderers,
        "sql": "sql",
    }

    def __init__(
        self, *, sql: str, epsilon: object = None, delta: object = None, rho: object = None, **release: Any
    ) -> None:
        _refuse_others(release)
        super().__init__(epsilon=epsilon, delta=delta, rho=rho, **release)
        self.sql = sql
        if not self._created_by_mapping:
            _check(sql, self.request)

    @classmethod
    def partial(cls, **given: Any) -> OperatorPartial:
        """The operator with the parameters that all mapped tasks have in common; constants are checked now.

        Raises:
            InvalidRequest: a constant is not valid.
        """
        _refuse_others(given)
        if "sql" in given:
            _check(given["sql"], given_fields(given), whole=False)
        return cls.partial_of(given, {})

    def check_request(self) -> None:
        """Check nothing: the statement, which gives the fields of the request, is checked on construction."""

    def _attempt(self, context: Context, *, awaited: int) -> dict[str, Any]:
        self.request = _with_statement(SqlStatement.parse(self.sql), self.request)
        return super()._attempt(context, awaited=awaited)

    def _price(self, context: Context) -> dict[str, Any]:
        self.request = _with_statement(SqlStatement.parse(self.sql), self.request)
        return super()._price(context)

    def _published(self, event: ReleaseEvent, context: Context) -> dict[str, Any]:
        returned = super()._published(event, context)
        answered = answer(SqlStatement.parse(self.sql), event.published.results["aggregates"])
        for line in list(answered.lines())[: MAX_ROWS + 1]:
            self.log.info("%s", line)
        return {**returned, "answer": answered.to_dict() if len(answered.rows) <= MAX_ROWS else None}


def _with_statement(statement: SqlStatement, others: Any) -> dict[str, Any]:
    """The request: what the statement asks for, and the parameters beside it."""
    check_answer(statement)
    given = dict(others) if isinstance(others, Mapping) else {}
    budget = given.pop("budget", {})
    fields = statement.fields(**{name: budget.get(name) for name in BUDGET})
    table = {**fields.get("table", {}), **(given.pop("table", None) or {})}
    return {**fields, **given, **({"table": table} if table else {})}


def _check(sql: Any, others: Any, *, whole: bool = True) -> None:
    """Refuse what is wrong for every value of the templates; a statement that they are part of is read later."""
    if not isinstance(sql, str):
        return
    try:
        statement = SqlStatement.parse(sql)
    except InvalidRequest:
        if is_constant(sql):
            raise
        return
    fields = _with_statement(statement, others)
    if whole:
        check_constants(fields)
    else:
        check_given({name: value for name, value in fields.items() if name != "budget"})


def _refuse_others(given: Mapping[str, Any]) -> None:
    for name in OF_STATEMENT:
        if given.get(name) is not None:
            raise InvalidRequest(
                name, None, "is not a parameter of PrivateSqlOperator: the statement says what is released",
                "leave it out, or use AggregatesOperator",
            )  # fmt: skip
