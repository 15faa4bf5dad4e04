"""Which engine counts a local run's request: the embedded one if it is installed and known to agree, else Spark.

The choice follows from the request, the account's schema, the types in the footers of the table's files, the
configuration and what is installed; never from a table's rows, its size or the number of its files, because a release
states its engine. The engine is no part of a release's key or draw: a retry by another engine reuses the stored draw,
and if there is none, it gets the same counts.
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
    """The engine that counts a request, and why it was chosen.

    Attributes:
        master: Spark's name of a master, or the embedded engine's.
        why: one public line that says which engine was chosen, and why; empty if the run or the machine names the
            engine.
        fault: why the embedded engine is not used; None if it is used, or if another engine is named.
    """

    master: str
    why: str = ""
    fault: InvalidRequest | None = None


def choose_engine(
    request: TableRequest, *, master: str, settings: Collection[str], environment: Mapping[str, str]
) -> EngineChoice:
    """The engine of a run: the one that the run or the machine names, or else the embedded one where it can be used.

    Args:
        request: completed by its account's terms.
        master: the master that the run names.
        settings: the names of the Spark settings that the run makes.
        environment: the environment variables of this machine.
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
    """The error on a machine where neither engine can run a request, with both remedies in one line.

    Args:
        choice: the choice of Spark.
        missing: the error that says what Spark lacks here.
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
