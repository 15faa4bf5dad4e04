"""Errors of a release, each of which says whether a retry can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ReleaseError(Exception):
    """A release failed; the message never depends on the data.

    Attributes:
        retryable: whether a retry of the same release can succeed.
    """

    retryable = False


class ReleaseFailed(ReleaseError):
    """Something outside the request failed; the charge stays, and a retry continues where this attempt stopped."""

    retryable = True


class ReleaseRejected(ReleaseError):
    """The draft does not meet the release contract: nothing was published, and the reservation stays."""


class ReleaseClosed(ReleaseError):
    """The release's charge is void or burnt, or another process closed it, so this attempt may publish nothing."""


class ReleaseDamaged(ReleaseError):
    """The store does not hold what the ledger committed; it is neither drawn again nor overwritten."""


UNCHARGED = "this attempt has charged nothing, and a retry is safe"
RESERVED = "the reservation stays, and a retry goes on with it"
PAID = "the release stays paid for, and a retry goes on with it"


@contextmanager
def as_release_errors(then: str = "try again") -> Iterator[None]:
    """Turn a store's ``OSError`` into ``ReleaseFailed``; a retry is safe, as each step first reads what exists already.

    Args:
        then: what the error says of the charge and of a retry.

    Raises:
        ReleaseFailed: the store failed.
    """
    try:
        yield
    except OSError as error:
        raise ReleaseFailed(f"the output store failed ({type(error).__name__}); {then}") from error
