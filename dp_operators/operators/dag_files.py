"""DAGs from YAML files, one release per file; a mistake is an import error that names the file and the line."""

from __future__ import annotations

import datetime as dt
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG, BaseOperator
from pydantic import Field

from dp_operators.operators.groups import release_tasks
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.operators.requests import BUDGET, FIELDS
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract.documents import parse_yaml
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen, did_you_mean

REQUEST, TASK, SENSOR = "request", "task", "sensor"
PARTS = (*FIELDS, "budget", *BUDGET, "request")
"""What a file says in its request, and not among the parameters of a task."""


class DagFields(Frozen):
    """The fields of a file's DAG, named as the parameters of Airflow's ``DAG``.

    Attributes:
        dag_id: the DAG's id; the file's name without its ending if it is left out.
        schedule: a cron expression or a preset such as ``@daily``; None if the DAG is only run by hand.
        start_date: the first day, as ``YYYY-MM-DD``, in UTC.
        catchup, max_active_runs, description, tags, params: as for ``DAG``.
    """

    dag_id: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]+$", max_length=250)] | None = None
    schedule: str | None = None
    start_date: dt.date | None = None
    catchup: bool = False
    max_active_runs: Annotated[int, Field(ge=1)] = 1
    description: str | None = None
    tags: tuple[str, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)


class DagFile(Frozen):
    """A file with a release and its DAG.

    Attributes:
        dag: the DAG.
        request: the request, with the fields of the request reference.
        task: further parameters of ``ReleaseDiagnosticsOperator``, such as ``runner``, ``retries`` and ``allotment``.
        sensor: further parameters of the sensor, such as ``deferrable`` and ``timeout``.
        on_exhausted: what to do while the budget does not suffice.
        verify: whether to compare the published release with the ledger.
    """

    dag: DagFields = DagFields()
    request: dict[str, Any]
    task: dict[str, Any] = Field(default_factory=dict)
    sensor: dict[str, Any] = Field(default_factory=dict)
    on_exhausted: Literal["wait", "fail", "skip"] = "wait"
    verify: bool = True


def dags_from(*patterns: str) -> dict[str, DAG]:
    """A DAG for each YAML file that matches, with the tasks ``budget``, ``release`` and ``verify``.

    Airflow finds the DAGs of a module that only calls this function: they register themselves. Airflow reads a module
    only if the words ``airflow`` and ``dag`` are in it.

    Args:
        patterns: paths with ``*``, ``?`` and ``**``, relative to the folder of the calling module.

    Returns:
        the DAGs by their ids.

    Raises:
        InvalidRequest: no file matches, two files have the same DAG id, or a file is wrong; the line names the file and
            the line.
    """
    folder = Path(sys._getframe(1).f_globals.get("__file__", ".")).parent
    paths = sorted({path for pattern in patterns for path in _matching(folder, pattern)})
    dags: dict[str, DAG] = {}
    for path in paths:
        dag = dag_from(path)
        if dag.dag_id in dags:
            raise InvalidRequest(str(path), dag.dag_id, "must have a DAG id of its own", "give dag.dag_id")
        dags[dag.dag_id] = dag
    return dags


def dag_from(path: str | Path) -> DAG:
    """The DAG of one file.

    Raises:
        InvalidRequest: the file is wrong; the line names the file and, where it is known, the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(
            str(path), None, "must be a file of text in UTF-8 that can be read", "check the file"
        ) from None
    try:
        data = parse_yaml(text, what="file")
    except InvalidRequest as refused:  # its line says where
        raise InvalidRequest.from_dict({**refused.to_dict(), "field": f"{path}: {refused.field}"}) from None
    try:
        return _dag_of(DagFile.parse(data), path.stem)
    except InvalidRequest as refused:
        line = line_of(text, refused.field)
        where = f"{path}, line {line}" if line else str(path)
        raise InvalidRequest.from_dict({**refused.to_dict(), "field": f"{where}: {refused.field}"}) from None


def line_of(text: str, field: str) -> int | None:
    """The line on which ``field`` of a YAML document begins, or, if it is missing, the innermost part around it.

    None if the document cannot be read.

    Args:
        text: the document.
        field: names, separated by dots; an entry of a list may be left out, as in ``request.diagnostics.bins``.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return None if node is None else _line(node, field.split("."))[1]


def _dag_of(file: DagFile, name: str) -> DAG:
    fields = dict(file.request)
    budget = fields.pop("budget", None)
    if not isinstance(budget, dict):
        raise InvalidRequest(f"{REQUEST}.budget", None, "is required", "give it, such as {epsilon: '1'}")
    _require_fields(fields, FIELDS, REQUEST)
    _require_fields(budget, BUDGET, f"{REQUEST}.budget")
    _require_parameters(file.task, ReleaseDiagnosticsOperator, TASK)
    _require_parameters(file.sensor, PrivacyBudgetSensor, SENSOR)
    about = file.dag.model_dump(exclude={"start_date", "dag_id", "tags"})
    day = file.dag.start_date
    start = None if day is None else dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
    with _airflow_agrees("dag"):
        dag = DAG(file.dag.dag_id or name, start_date=start, tags=list(file.dag.tags), **about)
    try:
        with _airflow_agrees(TASK), dag:
            release_tasks(
                sensor={"on_exhausted": file.on_exhausted, **file.sensor},
                verify=file.verify,
                alert=None,
                alert_at=(),
                **{**fields, **budget, **file.task},
            )
    except InvalidRequest as refused:
        part = refused.field.partition(".")[0]
        raise (refused if part == TASK else refused.within(REQUEST if part in PARTS else TASK)) from None
    return dag


@contextmanager
def _airflow_agrees(part: str) -> Iterator[None]:
    """Turn what Airflow says of a parameter's value into one line."""
    try:
        yield
    except InvalidRequest:
        raise
    except (TypeError, ValueError, AirflowException) as wrong:
        raise InvalidRequest(part, str(wrong), "must be a value that Airflow accepts", "correct the value") from None


def _matching(folder: Path, pattern: str) -> Iterable[Path]:
    root, rest = (Path("/"), pattern.lstrip("/")) if pattern.startswith("/") else (folder, pattern)
    matching = list(root.glob(rest))
    if not matching:
        raise InvalidRequest("dags_from", str(root / rest), "must match at least one file", "check the path")
    return matching


def _require_fields(fields: Mapping[str, Any], known: Collection[str], within: str) -> None:
    for name in fields:
        if name not in known:
            raise InvalidRequest(
                f"{within}.{name}", None, "is not a field of this part of the request",
                f"remove it or correct its name{did_you_mean(name, known)}",
            )  # fmt: skip


def _require_parameters(given: Mapping[str, Any], operator: type[BaseOperator], within: str) -> None:
    own = (vars(base)["__init__"] for base in operator.__mro__ if "__init__" in vars(base) and base is not object)
    known = {name for init in own for name in inspect.signature(init).parameters} - {"self", "kwargs", *PARTS}
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"{within}.{name}", None, f"is not a parameter of {operator.__name__} beside the request",
                f"remove it or correct its name{did_you_mean(name, known)}",
            )  # fmt: skip


def _line(node: Any, names: Sequence[str]) -> tuple[int, int]:
    """How many of ``names`` exist below a node, and the line of the last of them."""
    here = (0, int(node.start_mark.line) + 1)
    if not names:
        return here
    if node.id == "sequence":
        return max((_line(entry, names) for entry in node.value), key=lambda place: place[0], default=here)
    for key, value in node.value if node.id == "mapping" else ():
        if key.value == names[0]:
            depth, line = _line(value, names[1:])
            return (depth + 1, line if depth else int(key.start_mark.line) + 1)
    return here
