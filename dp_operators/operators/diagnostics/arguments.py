# Written by `python -m tests.support.operator_source` from ReleaseDiagnosticsOperator; do not edit.
"""The parameters that the operators of all kinds have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict


class TaskArguments(TypedDict, total=False):
    """The parameters of every Airflow task; Airflow documents and checks them."""

    task_id: Required[str]
    allow_nested_operators: Any
    dag: Any
    default_args: Any
    depends_on_past: Any
    do_xcom_push: Any
    doc: Any
    doc_json: Any
    doc_md: Any
    doc_rst: Any
    doc_yaml: Any
    email: Any
    email_on_failure: Any
    email_on_retry: Any
    end_date: Any
    execution_timeout: Any
    executor: Any
    executor_config: Any
    ignore_first_depends_on_past: Any
    inlets: Any
    logger_name: Any
    map_index_template: Any
    max_active_tis_per_dag: Any
    max_active_tis_per_dagrun: Any
    max_retry_delay: Any
    multiple_outputs: Any
    on_execute_callback: Any
    on_failure_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    on_success_callback: Any
    outlets: Any
    owner: Any
    params: Any
    pool: Any
    pool_slots: Any
    post_execute: Any
    pre_execute: Any
    priority_weight: Any
    queue: Any
    render_template_as_native_obj: Any
    resources: Any
    retries: Any
    retry_delay: Any
    retry_exponential_backoff: Any
    retry_policy: Any
    run_as_user: Any
    sla: Any
    start_date: Any
    task_display_name: Any
    task_group: Any
    trigger_rule: Any
    wait_for_downstream: Any
    wait_for_past_depends_before_skipping: Any
    weight_rule: Any


class ReleaseArguments(TaskArguments, total=False):
    """The parameters of a release; ``ReleaseDiagnosticsOperator`` documents them."""

    account: str | None
    table: Mapping[str, Any] | None
    label: str | Mapping[str, Any] | None
    model: str | Mapping[str, Any] | None
    epsilon: object
    delta: object
    neighbours: str | None
    unit: Mapping[str, Any] | None
    where: str | None
    output: str | None
    blocks: str | Sequence[str] | None
    title: str | None
    record: str | None
    scoring: Mapping[str, Any] | None
    federation: str | None
    input_suite: Mapping[str, Any] | None
    row_id: str | None
    runner: str
    master: str | None
    spark_conn_id: str
    conf: Mapping[str, Any] | None
    private_dir: str | None
    privacy_ledger_conn_id: str
    deployment: str | None
    allotment: str | None
    on_exhausted: Literal["wait", "fail", "skip"] | None
    on_undefined: str
    gate: str | None
    dry_run: bool
    deferrable: bool | None
