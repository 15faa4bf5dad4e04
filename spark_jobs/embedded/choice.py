"""Which engine counts a request of the local runner: the embedded one where it is installed and proved to, else Spark.

It follows from the request, the account's schema, the types in the footers of the table's files, the configuration and
what is installed; never from a table's rows, its size or the number of its files, because a release states its engine.
It is no part of a release's key or draw: a retry by another engine adopts the draw that is stored, and without one
counts alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_jobs.contract.embedded_engine import AUTO, EMBEDDED, require_embedded
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.embedded.installed import PACKAGE, RELEASE, require_engine

SPARK = "local[*]"
"""The master of Spark where it is chosen."""
MASTER_VARIABLE = "DP_DIAGNOSTICS_MASTER"
"""The environment variable that names the master of this machine's local runs, where a run names none."""

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The variable in which PySpark takes settings."""


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """An engine, and why.

    Attributes:
        master: the master that stands for it.
        why: one public line that says which engine, and why; empty where somebody named it.
        fault: why the embedded engine is not used; None where it is, or where somebody named another.
    """

    master: str
    why: str = ""
    fault: InvalidRequest | None = None


def choose_engine(
    request: TableRequest, *, master: str, settings: Collection[str], environment: Mapping[str, str]
) -> EngineChoice:
    """The engine of a run; whatever is named, by the run or by the machine, stays what it is.

    Args:
        request: completed by its account's terms.
        master: what the run names.
        settings: the names of its Spark settings.
        environment: the variables of this machine.
    """
    master = environment.get(MASTER_VARIABLE, AUTO) if master == AUTO else master
    if master != AUTO:
        return EngineChoice(master=master)
    try:
        require_engine()
    except InvalidRequest as missing:
        return _spark(missing, missing.requirement)
    if settings := [*settings, *({_ARGUMENTS} & set(environment))]:
        return _refused(InvalidRequest("conf", ", ".join(settings), "must be left out", "leave it out"))
    try:
        require_embedded(request)
    except InvalidRequest as fault:
        return _refused(fault)
    except OSError:  # whether the table can be read is the other engine's to say
        return EngineChoice(master=SPARK, why="engine: Spark, because the table cannot be listed here")
    return EngineChoice(master=EMBEDDED, why=f"engine: embedded ({PACKAGE} {RELEASE}), which needs no Java")


def _refused(fault: InvalidRequest) -> EngineChoice:
    return _spark(fault, f"does not take {fault.field} {fault.value or ''}".rstrip())


def _spark(fault: InvalidRequest, because: str) -> EngineChoice:
    return EngineChoice(master=SPARK, why=f"engine: Spark, because the embedded engine {because}", fault=fault)


def without_either(choice: EngineChoice, missing: InvalidRequest) -> InvalidRequest:
    """What is said of a machine where neither engine can run a request: both remedies in one line.

    Args:
        choice: of Spark.
        missing: what Spark misses here.
    """
    if choice.fault is None:
        return missing
    because = choice.why.partition(", because ")[2]
    other = "install dp-diagnostics[embedded]" if choice.fault.field == "master" else "leave that out"
    return InvalidRequest.from_dict({
        **missing.to_dict(),
        "requirement": f"{missing.requirement}, because {because}",
        "remedy": f"{missing.remedy}; or {other}, for the embedded engine, which needs no Java",
    })  # fmt: skip
