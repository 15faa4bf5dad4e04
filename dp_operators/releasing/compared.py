"""Distribution functions of earlier releases, to hold new ones against; free, for what is released is public."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from dp_operators.releasing.committed import committed_release
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierFunction

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader

KIND = "ecdf"
_FILE, _COLUMN = f"{KIND}.parquet", "cdf"
WHAT = "diagnostics.compare_with"


def earlier_function(uri: object, ledger: LedgerReader) -> dict[str, Any]:
    """The distribution function that a published release holds, as ``compare_with`` of a request takes it.

    The manifest has to be the very one that the ledger committed, and the data file the very one that the manifest
    names: a function that somebody wrote there was not paid for, and would not be private however it calls itself.

    Args:
        uri: the release's folder.
        ledger: that paid for it; it is only read.

    Raises:
        InvalidRequest: no release lies there, the ledger has not committed this one, or it holds no such function.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    committed = committed_release(uri, ledger, what=WHAT)
    if KIND not in committed.release.results:
        raise InvalidRequest(
            WHAT,
            value=committed.uri,
            requirement="must hold a distribution function",
            remedy=f"name a release of {KIND}",
        )
    content = committed.file(_FILE)
    try:
        function = EarlierFunction.of(
            committed.release.results[KIND],
            _fractions(content),
            released_by=committed.release.key or "",
            release=committed.uri,
        )
    except InvalidRequest as refused:
        raise refused.within(WHAT) from None
    except (KeyError, TypeError, ValueError):  # another version wrote it; pyarrow's errors are ValueErrors too
        raise InvalidRequest(
            WHAT,
            value=committed.uri,
            requirement="must hold a distribution function of this version's form",
            remedy="release it again, or compare with a later one",
        ) from None
    return function.model_dump(mode="json")


def _fractions(content: bytes) -> list[float]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
    return list(file.read(columns=[_COLUMN]).column(_COLUMN).to_pylist())
