"""The operator that releases differentially private diagnostics of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.links.release import AccountLink, ReportLink, VerifyLink
from dp_operators.operators.application import ApplicationOperator
from dp_operators.operators.outlets import with_release_outlets
from dp_operators.operators.requests import checked_fields, given_fields, read_request, whole_or_fields
from dp_operators.operators.undefined import FAIL, end_undefined, require_ending
from dp_operators.tasks.constants import check_constants, check_given, is_constant
from dp_operators.tasks.errors import as_airflow_errors
from dp_operators.tasks.events import ReleaseEvent
from dp_operators.tasks.intervals import blocks_of_run
from dp_operators.tasks.keys import deployment_name, release_key
from dp_operators.tasks.metrics import count_release, count_stale
from spark_jobs.contract.expressions.blocks import ALL
from spark_jobs.contract.figures import undefined_kinds
from spark_jobs.contract.gates import Gate, gate_in_file, gate_of
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.written import Written, read_written

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from dp_operators.budget import PrivacyLedger
    from dp_operators.releasing import ChargedRequest

_PAID = "the release was published and paid for"


class ReleaseDiagnosticsOperator(ApplicationOperator):
    """Reserves budget, runs the Spark application, and publishes one release, however often the task is repeated.

    A retry, a cleared task or a second worker uses the charge and the noise of the first attempt, so that one task of
    one DAG run publishes one release and pays once. No data of the table passes through Airflow: the log shows public
    stages and what was released, and XCom gets ``{"uri", "key", "cost", "status", "figures"}`` only. ``status`` is
    ``ok`` for each kind of diagnostic, or ``undefined`` where the noise leaves no usable result; ``figures`` are the
    headline figures with their intervals.

    Every parameter is templated, including values inside dictionaries, and numbers may be strings. Give either
    ``request``, the whole request, or its fields as the other parameters.

    Args:
        account: the ledger account that pays.
        table: the pinned table, with the fields of ``spark_jobs.contract.tables.TableSource``.
        label: the outcome's column, or the column with its two values; for diagnostics of a classifier.
        model: the source of scores or fitted values, or the path of a JSON file with it; for diagnostics of a model. An
            earlier release that fitted the model is given as ``{"release": URI}``, as the URI of its folder, or as the
            result of the task that made it (``fit.output``).
        diagnostics: what to release: a kind, or a list of kinds, with or without options. An ``ecdf`` may be compared
            with an earlier release, which ``compare_with`` names in the same ways as ``model``.
        epsilon, delta: the full cost, as exact decimals.
        rho: the full cost in a ``zcdp`` account, in place of epsilon and delta; for tables of aggregates, whose noise
            is then Gaussian.
        neighbours: ``add_remove`` (the default) or ``replace_one``.
        unit: the privacy unit; one row by default.
        where: a filter in the allowed syntax.
        output: URI of the folder that holds releases.
        blocks: the ledger's blocks to read and charge, or ``interval`` for the blocks of the run's data interval; for a
            ``@daily`` DAG, that is the day before. A manual run has an interval only if it has a partition key.
        allotment: a sub-budget of the account that must be able to pay as well.
        title: the report's title.
        record: what one row represents, in words for the report.
        scoring: public rules for scores outside the expected range.
        input_suite: expectations of the table's columns and their types, as a suite of Great Expectations in JSON form.
        federation: name of a registered federation, with whose silos the rows are released together.
        row_id: a column that distinguishes the rows of one unit; it makes releases faster if units have many rows.
        request: the whole request instead: a dictionary, or the path of a JSON or YAML file.
        runner: ``local`` (on this machine), ``cluster`` (on the service that the connection's type names), or
            ``spark_submit`` (the same, but only for connections of type ``spark``).
        master: the local runner's Spark master, such as ``local[2]``, or ``embedded`` for the engine without Java; by
            default ``embedded`` if it is installed and can count this request, otherwise Spark.
        spark_conn_id: the connection for ``cluster``, of one of the types in "Use a Spark cluster", and for
            ``spark_submit``, of type ``spark``.
        conf: Spark settings of memory, cores, executors or partitions, which override the connection's.
        private_dir: folder for the application's output, inside the privacy boundary; by default the user's own.
        privacy_ledger_conn_id: the connection of the ledger.
        deployment: this Airflow deployment's name in release keys; by default the ledger connection's.
        on_exhausted: what to do if the budget does not suffice when it is reserved. ``wait``: start again in a minute,
            without occupying a worker; ``fail``: fail without a retry; ``skip``: skip this task and its downstream
            tasks. By default, the setting and times of the upstream ``PrivacyBudgetSensor`` whose ``release_task_id``
            is this task; without one, ``fail``. A cost above the cap itself always fails, unless it is skipped.
        on_undefined: how the task ends if all figures of a diagnostic are undefined, which depends on noisy sizes
            alone. ``publish`` (the default): it succeeds; ``skip`` or ``fail``: it is skipped, or fails without a
            retry. In each case, the release is published and paid for, and XCom has the same content.
        gate: a condition on a released figure, such as ``roc_curve.auc.lower >= 0.7``. If it does not hold, the task
            fails without a retry once the release was published, so that no downstream task runs; an undefined figure,
            or a figure of a result that is not ``ok``, never passes. The page "Gate on a figure such as the AUC, and
            follow it" has the names.
        dry_run: only report what the release would cost and what is left; nothing is reserved, run or written.
        deferrable: wait for an application on a cluster in the triggerer, without occupying a worker. By default, the
            option ``default_deferrable`` of Airflow's section ``[operators]``. A driver on the worker's own machine is
            always waited for in the task's slot, as it loads the worker.

    Raises:
        InvalidRequest: on construction, so that the DAG has an import error: a constant is wrong for all values of the
            templates, such as ``epsilon="abc"``, an unknown kind, or a missing account.
        AirflowFailException: a bad request, an exceeded budget, or a key that paid for another request; not retried.
        AirflowSkipException, AirflowRescheduleException: an exceeded budget, if ``on_exhausted`` says so.
        AirflowException: the ledger cannot be reached, or the application failed; a retry continues from there.
    """

    template_fields: Sequence[str] = (*ApplicationOperator.template_fields, "on_undefined", "gate")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), AccountLink(), VerifyLink())

    def __init__(
        self,
        *,
        account: str | None = None,
        table: Mapping[str, Any] | None = None,
        label: str | Mapping[str, Any] | None = None,
        model: str | Mapping[str, Any] | None = None,
        diagnostics: str | Sequence[Any] | None = None,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        neighbours: str | None = None,
        unit: Mapping[str, Any] | None = None,
        where: str | None = None,
        output: str | None = None,
        blocks: str | Sequence[str] | None = None,
        title: str | None = None,
        record: str | None = None,
        scoring: Mapping[str, Any] | None = None,
        federation: str | None = None,
        input_suite: Mapping[str, Any] | None = None,
        row_id: str | None = None,
        request: str | Mapping[str, Any] | None = None,
        runner: str = "local",
        master: str | None = None,
        spark_conn_id: str = "spark_default",
        conf: Mapping[str, Any] | None = None,
        private_dir: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        allotment: str | None = None,
        on_exhausted: Literal["wait", "fail", "skip"] | None = None,
        on_undefined: str = "publish",
        gate: str | None = None,
        dry_run: bool = False,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        fields = given_fields({
            "account": account, "table": table, "label": label, "model": model, "diagnostics": diagnostics,
            "epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours, "unit": unit, "where": where,
            "output": output, "blocks": blocks, "title": title, "record": record, "scoring": scoring,
            "federation": federation, "input_suite": input_suite, "row_id": row_id,
        })  # fmt: skip
        whole = whole_or_fields(request, fields)
        super().__init__(
            request=whole, runner=runner, master=master, spark_conn_id=spark_conn_id, conf=conf,
            private_dir=private_dir, privacy_ledger_conn_id=privacy_ledger_conn_id, deployment=deployment,
            allotment=allotment, on_exhausted=on_exhausted, deferrable=deferrable, **kwargs,
        )  # fmt: skip
        self.on_undefined = on_undefined
        if gate is not None and is_constant(gate) and not self._created_by_mapping:
            Gate.parse(gate)
        self.gate = gate
        self._gate: Gate | None = None
        self.price_only = dry_run  # `dry_run` is a method of every Airflow task
        self.released: ReleaseEvent | None = None

    @classmethod
    def partial(cls, **given: Any) -> OperatorPartial:
        """The operator with the parameters that all mapped tasks have in common; constants are checked now.

        Raises:
            InvalidRequest: a constant is not valid.
        """
        return cls.partial_of(given, {})

    @classmethod
    def partial_of(cls, given: Mapping[str, Any], checked: Mapping[str, Any]) -> OperatorPartial:
        """What ``partial`` returns; ``checked`` are the fields of the request that come from other parameters."""
        fields = given_fields(given)
        check_given({**fields, **checked})
        outlets = with_release_outlets(given.get("outlets"), fields)
        return super().partial(**{**given, "outlets": outlets})

    def check_request(self) -> None:
        """Check the constants of the request when the DAG is parsed; a file is read when the task runs."""
        if isinstance(self.request, Mapping):
            check_constants(self.request)

    def execute(self, context: Context) -> dict[str, Any]:
        """Make the release, or return the one that an earlier attempt of this task has made."""
        if self.price_only:
            with as_airflow_errors():
                return self._price(context)
        return self._attempt(context, awaited=0)

    def _published(self, event: ReleaseEvent, context: Context) -> dict[str, Any]:
        published = event.published
        count_release(event)
        if published.adopted:
            self.log.info("this task's release was published before: %s", published.uri)
        returned = {
            "uri": published.uri,
            "key": published.key,
            "cost": published.cost.model_dump(mode="json"),
            "status": dict(published.status),
            "figures": [one.to_dict() for one in published.figures],
        }
        undefined = undefined_kinds(published.status)
        unmet = {}
        if undefined:
            unmet[f"undefined because of the noise: {', '.join(undefined)}; {_PAID}"] = self.on_undefined
        if self._gate is not None and not self._gate.holds(published.results):
            unmet[f"the gate {self._gate} does not hold; {_PAID}"] = FAIL
        for line in filter(None, (published.warning, *unmet)):
            self.log.warning("%s", line)
        self.log.info("%s", event.line)
        for line, ending in unmet.items():
            end_undefined(ending, line, returned, context)
        return returned

    def build_request(self) -> ReleaseRequest | Written[ReleaseRequest]:
        """The request in the rendered parameters; if only its account can complete it, the fields as they are written.

        Raises:
            InvalidRequest: the parameters give no valid request.
        """
        return read_request(self.request)

    def _on_terms(
        self, given: Mapping[str, Any], ledger: PrivacyLedger, key: object, context: Context
    ) -> ChargedRequest[ReleaseRequest]:
        """The request on its account's terms, with its key, and with the content of what it names."""
        from dp_operators.releasing import ChargedRequest, with_references

        fields = with_references(given, ledger)
        named = tuple(fields.get("blocks") or (ALL,))
        blocks = blocks_of_run(named, fields.get("account"), ledger, context)
        if blocks != named:
            fields["blocks"] = list(blocks)
        charged = ChargedRequest.of(read_written(ReleaseRequest, fields), ledger, key)
        text = self.gate or (gate_in_file(self.request) if isinstance(self.request, str) else None)
        # a figure that the release will not have is refused before anything is charged
        self._gate = gate_of(text, charged.request.diagnostics) if text else None
        return charged

    def _publish(self, context: Context, awaited: int) -> ReleaseEvent:
        from dp_operators.release_check import check_release
        from dp_operators.releasing import release

        require_ending(self.on_undefined)
        fields = checked_fields(self.request)
        runner = self._runner()
        hook = PrivacyLedgerHook(self.privacy_ledger_conn_id)
        key = release_key(context, deployment=deployment_name(self.deployment, hook))
        self.log.info("Releasing %s", key)
        with closing(hook.get_ledger()) as ledger:
            charged = self._on_terms(fields, ledger, key, context)
            published = release(
                charged,
                runner=runner,
                check=check_release,
                allotment=self.allotment or None,
                actor=f"airflow:{key.dag_id}.{key.task_id}",
                progress=self._progress,
                waiting=self._waiting(runner, awaited),
            )
            count_stale(charged.account, ledger)
            self.released = ReleaseEvent.of(charged.request, published, ledger, connection=self.privacy_ledger_conn_id)
        return self.released

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What OpenLineage's provider publishes about this release; None without that provider or without a release."""
        try:
            from dp_operators.lineage.openlineage import operator_lineage
        except ImportError:
            return None
        return None if self.released is None else operator_lineage(self.released)

    def _price(self, context: Context) -> dict[str, Any]:
        from dp_operators.releasing import forecast

        fields = checked_fields(self.request)
        runner, hook = self._runner(), PrivacyLedgerHook(self.privacy_ledger_conn_id)
        key = release_key(context, deployment=deployment_name(self.deployment, hook))
        with closing(hook.get_ledger()) as ledger:
            charged = self._on_terms(fields, ledger, key, context)
            expected = forecast(charged, runner=runner, allotment=self.allotment or None)
        remaining = {block: budget.model_dump(mode="json") for block, budget in expected.left.items()}
        if expected.charge is not None:
            self.log.info("would charge nothing: charge %s is %s", expected.charge.id, expected.charge.state)
        else:
            self.log.info(
                "would charge %s to account %s: %s",
                expected.cost.amount, charged.account, ", ".join(remaining),
            )  # fmt: skip
        return {"account": charged.account, "cost": expected.cost.model_dump(mode="json"), "remaining": remaining}
