"""The checks that a charged run makes of the request in its store."""

from __future__ import annotations

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.sealing import Seal
from spark_jobs.contract.table_request import TableRequest


def require_charged(request: TableRequest, seal: Seal, *, document_sha256: str, command: str) -> None:
    """Refuse a request if it is not the request that the ledger charged.

    Args:
        request: the request in the store.
        seal: the committer's seal, with the hash that the charge is tied to.
        document_sha256: hash of the document that the committer wrote.
        command: the command that makes such runs, for the message.

    Raises:
        InvalidRequest: a hash differs, or the request lacks its account's terms.
    """
    if request.sha256 != document_sha256 or request.charged_sha256 != seal.request_sha256:
        raise InvalidRequest(
            "request", None, "must be the request that was charged, but the store holds another request",
            "find out who wrote the request in the store, or install the same version of this package on both sides",
        )  # fmt: skip
    if not request.table.is_bound:
        raise InvalidRequest(
            "table", None, "must have the columns and the version that its account binds, because the run is charged",
            f"start charged runs by `{command}` or the operator, which add them",
        )  # fmt: skip
