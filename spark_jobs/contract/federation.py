"""Federated releases: which requests can be one, what all silos' requests share, and what an administrator registers.

A request gives only the name of its federation. A file that the administrator registers says who the servers are, what
the silos have agreed on, and which account may take part; the keys of the silo lie beside this file. So nobody who
writes requests can have a silo's counts shared with servers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from spark_jobs.contract.agreement import Agreement, Name
from spark_jobs.contract.documents import parse_json
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.values import Frozen

FEDERATIONS_VARIABLE = "DP_DIAGNOSTICS_FEDERATIONS"
"""Names the folder of registered federations, on the machines that reserve and that run the application."""

LINEAR: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "aggregates": ("auto", "k_norm"),
        "auc": ("counts",),
        "average_precision": ("counts", "weighted_counts"),
        "binned_residuals": ("auto", "fixed_bins"),
        "binormal_roc": ("counts",),
        "calibration": ("auto", "fixed_bins"),
        "cdf_points": (None,),
        "confusion_matrix": (None,),
        "ecdf": (None,),
        "linear_fit": ("laplace",),
        "linear_regression": ("auto", "noisy_moments"),
        "logistic_fit": ("laplace",),
        "ranking_figures": (None,),
        "recalibration": (None,),
        "residual_plot": ("auto",),
        "roc_curve": ("auto", "equi_depth", "fixed_cells", "tree"),
    }
)
"""The methods of each kind that work on sums over silos; None for a kind without methods."""

BY_KEYS = frozenset({"cdf_points"})
"""The kinds for which silos send keys of comparisons to two servers, in place of a vector in each round."""

OF_ONE_SILO = frozenset({"account", "table", "block_expression", "output", "federation"})
"""The fields of a request in which silos may differ; all others are the same in every silo."""


class Federation(Frozen):
    """The federation that a request names; a request needs to give only the name.

    Attributes:
        name: the name under which the administrator has registered the federation.
        agreement: the registered agreement, which is filled in before the charge.
    """

    name: Name
    agreement: Agreement | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Registration(Frozen):
    """One federated release, as the administrator of a silo or a server has registered it.

    Attributes:
        agreement: the agreement of all silos and servers.
        account: for a silo, the account whose requests may take part; None for a server.
        receipts: for a server, the folder or URI of its receipts; None for a silo.
    """

    agreement: Agreement
    account: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    receipts: Annotated[str, Field(min_length=1, max_length=1000)] | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str], name: str) -> Self:
        """The federation that is registered under this name, in the folder that ``DP_DIAGNOSTICS_FEDERATIONS`` names.

        Raises:
            InvalidRequest: there is no such folder or federation, or its file is not a registration.
        """
        path = registered_file(environ, name, "json")
        try:
            content = path.read_bytes()
        except OSError:
            raise _unregistered(name) from None
        try:
            return cls.parse(parse_json(content, what="federation"))
        except InvalidRequest as refused:
            raise refused.within(f"federation {name}") from None


def registered_file(environ: Mapping[str, str], name: str, ending: str) -> Path:
    """The path of a federation's file with this ending: ``json``, its registration, or ``keys``, a silo's private keys.

    Raises:
        InvalidRequest: the environment names no folder.
    """
    folder = environ.get(FEDERATIONS_VARIABLE)
    if not folder:
        raise InvalidRequest(
            FEDERATIONS_VARIABLE, None,
            "must name the folder of registered federations, because the request names a federation",
            "have the administrator mount it",
        )  # fmt: skip
    return Path(folder) / f"{name}.{ending}"


def _unregistered(name: str) -> InvalidRequest:
    return InvalidRequest(
        "federation", name, "must be one that the administrator of this silo has registered",
        "have it registered: `python -m spark_jobs.federation join`",
    )  # fmt: skip


def require_linear(kind: str, given: Mapping[str, Any]) -> None:
    """Refuse a diagnostic that uses exact numbers in any way but as sums over silos.

    Args:
        kind: the kind of the diagnostic.
        given: its options; a method that is left out is ``auto``.

    Raises:
        InvalidRequest: the kind or its method is not in ``LINEAR``, or a mechanism for histograms is named.
    """
    methods = LINEAR.get(kind, ())
    if not methods:
        raise InvalidRequest("kind", kind, f"must be one of {', '.join(LINEAR)} for silos", "pool the tables")
    method = given.get("method", None if None in methods else "auto")
    if given.get("histogram") is not None:
        raise InvalidRequest("histogram", given["histogram"], "must be left out for silos", "remove it")
    if method not in methods:
        raise InvalidRequest(
            "method", method, f"must be {' or '.join(str(name) for name in methods)} for silos",
            "choose one of these methods, or pool the tables",
        )  # fmt: skip


def require_add_remove(neighbours: Neighbours) -> None:
    """Refuse a relation under which a silo would have to know the size of the pooled table.

    Raises:
        InvalidRequest: ``neighbours`` is not ``ADD_REMOVE``.
    """
    if neighbours != Neighbours.ADD_REMOVE:
        raise InvalidRequest("neighbours", neighbours, "must be add_remove for silos", "leave it out")
