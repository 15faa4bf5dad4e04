"""Why a release did not come about, and whether trying again can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ReleaseError(Exception):
    """A release that did not come about; its text is fixed and holds nothing of the data.

    Attributes:
        retryable: whether the same release may be tried again as it is.
    """

    retryable = False


class ReleaseFailed(ReleaseError):
    """Something outside the request failed; the reservation stays, and a retry goes on where this attempt stopped."""

    retryable = True


class ReleaseRejected(ReleaseError):
    """The draft does not meet the release contract: nothing was published, and the reservation stays."""


class ReleaseClosed(ReleaseError):
    """The reservation was given back or spent elsewhere, so this attempt may publish nothing."""


class ReleaseDamaged(ReleaseError):
    """The store does not hold what the ledger committed; nothing is drawn or overwritten to mend it."""


@contextmanager
def as_release_errors() -> Iterator[None]:
    """Tell a store's fault as a failed attempt, which may be repeated: every step asks the store what is there first.

    Raises:
        ReleaseFailed: the store failed.
    """
    try:
        yield
    except OSError as error:
        raise ReleaseFailed(
            f"the output store failed ({type(error).__name__}); the reservation stays, and a retry goes on with it"
        ) from error
