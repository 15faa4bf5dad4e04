"""House rules for DAGs that release private diagnostics, as Airflow's cluster policy.

An administrator names the rules in ``airflow_local_settings.py``; a DAG that breaks one is an import error:

    from dp_operators.policies import privacy_policy

    dag_policy = privacy_policy("account", "sensor", "cluster_runner")

The rules look at tasks of this provider. They are no substitute for the ledger, which refuses every cost that exceeds
the budget, whatever a DAG says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import DAG

Rule = Callable[[Any], str | None]
"""Returns what the task of a release or a stream lacks, in words; None if it obeys."""


def privacy_policy(*rules: str) -> Callable[[DAG], None]:
    """A ``dag_policy`` for ``airflow_local_settings.py``, with the rules of these names.

    Args:
        rules: names of ``RULES``; all of them if none is given.

    Raises:
        InvalidRequest: there is no rule of that name.
    """
    for name in rules:
        if name not in RULES:
            raise InvalidRequest("privacy_policy", name, f"must be one of {', '.join(RULES)}", "correct the name")
    named = {name: RULES[name] for name in rules or RULES}

    def dag_policy(dag: DAG) -> None:
        """Refuse a DAG with a release or a stream that breaks a rule.

        Raises:
            AirflowClusterPolicyViolation: with one line about the first such task.
        """
        from airflow.exceptions import AirflowClusterPolicyViolation

        for task in _paid(dag.tasks):
            for name, rule in named.items():
                lacking = rule(task)
                if lacking:
                    raise AirflowClusterPolicyViolation(
                        f"task {task.task_id} of DAG {dag.dag_id} {lacking} (privacy policy: {name})"
                    )

    return dag_policy


def _account(task: Any) -> str | None:
    if _parameter(task, "account"):
        return None
    return "must name the ledger account that pays, in the DAG and not only in a file or in what a function returns"


def _sensor(task: Any) -> str | None:
    from dp_operators.operators.release import ReleaseDiagnosticsOperator
    from dp_operators.sensors.budget import PrivacyBudgetSensor

    if not issubclass(_class(task), ReleaseDiagnosticsOperator):
        return None  # a stream is paid once, so a sensor would hold up its later runs
    for before in task.get_flat_relatives(upstream=True):
        if issubclass(_class(before), PrivacyBudgetSensor):
            guarded = _parameter(before, "release_task_id")
            if guarded in (None, task.task_id):
                return None
    return "must have a PrivacyBudgetSensor upstream whose release_task_id is its own id"


def _cluster_runner(task: Any) -> str | None:
    from dp_operators import configuration

    if not configuration.production() or _parameter(task, "runner") in ("cluster", "spark_submit"):
        return None
    return (
        "must say runner='cluster' or 'spark_submit': this deployment is in production, and 'local' is for trying out"
    )


RULES: Mapping[str, Rule] = {"account": _account, "sensor": _sensor, "cluster_runner": _cluster_runner}
"""``account``: a release or a stream names its account in the DAG. ``sensor``: a budget sensor is upstream of a
release. ``cluster_runner``: a release or a stream runs on a cluster, if ``[privacy_diagnostics] production`` is set."""


def _paid(tasks: Iterable[Any]) -> Iterable[Any]:
    """The tasks that an account pays for: releases and streams."""
    from dp_operators.operators.application import ApplicationOperator

    return (task for task in tasks if issubclass(_class(task), ApplicationOperator))


def _is_mapped(task: Any) -> bool:
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    return isinstance(task, MappedOperator)


def _class(task: Any) -> type:
    """The operator's class, of a mapped task too.

    Of no other task: an operator of a DAG's own may have an attribute ``operator_class`` that says anything.
    """
    known = task.operator_class if _is_mapped(task) else type(task)
    return known if isinstance(known, type) else type(task)


def _parameter(task: Any, name: str) -> Any:
    """A parameter of a task, whether the task is mapped, and the parameter a field of its request, or not.

    None if the parameters that a task is mapped over, and that are known only when it runs, may replace it.
    """
    if _is_mapped(task):
        mapped = getattr(task.expand_input, "value", None)
        if not isinstance(mapped, Mapping) and not task._disallow_kwargs_override:  # expand_kwargs(..., strict=False)
            return None
        given = {**(mapped if isinstance(mapped, Mapping) else {}), **task.partial_kwargs}
        return given.get(
            name, (given.get("request") or {}).get(name) if isinstance(given.get("request"), Mapping) else None
        )
    request = getattr(task, "request", None)
    return request[name] if isinstance(request, Mapping) and name in request else getattr(task, name, None)
