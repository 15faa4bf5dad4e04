"""The page that verifies a release: its files against its manifest, and its manifest against the ledger."""

from __future__ import annotations

from dp_operators.budget import LedgerReader
from dp_operators.plugins.pages import line_of, render
from dp_operators.releasing import ReleaseError, check_release_folder
from dp_operators.releasing.requests import require_output


def verification(connection: str, ledger: LedgerReader, account: str, uri: str, *, nonce: str) -> str:
    """The page of a release's verification; it reads only within the folders of the account.

    Raises:
        InvalidRequest: there is no such account, or no release of the account in that folder.
        LedgerUnavailable: the ledger cannot be reached.
    """
    require_output(uri, ledger.account(account))
    unread, differences = "", tuple[str, ...]()
    try:
        differences = check_release_folder(uri, ledger)
    except ReleaseError as error:
        unread = line_of(error)
    return render(
        "verify.html.j2",
        connection=connection,
        account=account,
        uri=uri,
        differences=differences,
        unread=unread,
        nonce=nonce,
    )
