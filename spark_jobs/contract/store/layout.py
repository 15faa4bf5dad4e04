"""Where the objects of a release lie, and how an application reports its progress and outcome to its caller.

::

    OUTPUT/<release>/                    one folder per release key
        release.json                     the manifest; its presence makes the release visible
        report.html, *.parquet, *.svg    the release's files
        receipt.json                     written after the commit, with the head of the audit log
        _draft/claim.json                the release key; written before anything is reserved for it
        _draft/<charge>/                 shared by all attempts until the commit; never deleted or written again
            request.json                 the request as it was charged; the ledger has its hash
            account.json                 the figures for the report, sealed, and the sub-budget that pays
            draw.json                    the noisy statistics, sealed: one object, by exclusive create
            release.json, files/...      the manifest and files that will be published, sealed
            run-<n>.json                 states that run n ended before it read a row, and why; sealed
            handle-<n>.json              where the application of run n was submitted; sealed
    OUTPUT/_ledger/<account>/<entry>     anchors an entry of the audit log, by its number and its hash

Only the application and the committer can read sealed objects (``contract.store.sealing``). On a file system, the
folder ``_draft`` is accessible to its owner alone.

A draft outlives its release: if the files of a committed release are lost, they are made again from its draw.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from spark_jobs.contract.errors import InvalidRequest


class ExitCode(IntEnum):
    """The exit codes of ``python -m spark_jobs``; none of them depends on the data."""

    DONE = 0
    FAILED = 1
    REFUSED = 2


class ApplicationStage(StrEnum):
    """The public stages of an application; its caller's log shows nothing else of the application."""

    STARTING = "starting"
    READING = "reading"
    WAITING = "waiting"
    COUNTING = "counting"
    DRAWING = "drawing"
    WRITING = "writing"
    DONE = "done"


STAGE_PREFIX = "dp-diagnostics-stage"
STAGE_NONCE_VARIABLE = "DP_STAGE_NONCE"
"""The environment variable with a run's secret nonce; a line announces a stage only if it contains the nonce."""

SALT_VARIABLE = "DP_DIAGNOSTICS_SALT"
SALT_FILE_VARIABLE = "DP_DIAGNOSTICS_SALT_FILE"

MANIFEST_NAME = "release.json"
MAX_MANIFEST, MAX_RECEIPT = 128 * 2**20, 2**16
"""The sizes up to which a manifest and a receipt are read, in bytes: whoever writes to the store is not trusted."""
RECEIPT_NAME = "receipt.json"
DRAFT_FOLDER = "_draft"
ANCHOR_FOLDER = "_ledger"

_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_CHARGE_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


def stage_line(stage: ApplicationStage, nonce: str) -> str:
    """The line an application prints when it enters ``stage``."""
    return f"{STAGE_PREFIX} {nonce} {stage.value}"


def read_stage(line: str, nonce: str) -> ApplicationStage | None:
    """The stage that ``line`` announces; None for any other line, and if ``nonce`` is empty."""
    if not nonce:
        return None
    for stage in ApplicationStage:
        if line.strip() == stage_line(stage, nonce):
            return stage
    return None


def folder_name(release_key: str) -> str:
    """A folder name for a release key: readable, safe in any store, and different for different keys."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", release_key).strip("-").lower()[:60].strip("-")
    return f"{readable or 'release'}-{hashlib.sha256(release_key.encode()).hexdigest()[:20]}"


def release_folder(output: str, release_key: str) -> str:
    """URI of the folder of ``release_key`` under ``output``.

    Raises:
        InvalidRequest: the key is empty.
    """
    if not release_key:
        raise InvalidRequest("key", release_key, "must not be empty", "name the release")
    return f"{output.rstrip('/')}/{folder_name(release_key)}"


def anchor_folder(output: str, account: str = "") -> str:
    """URI of the folder that anchors the audit log in a folder of releases: of one account, or of all."""
    root = f"{output.rstrip('/')}/{ANCHOR_FOLDER}"
    return f"{root}/{folder_name(account)}" if account else root


def claim_uri(output: str, release_key: str) -> str:
    """URI of the release's claim, which shows that this store is the one where the release began.

    Raises:
        InvalidRequest: the key is empty.
    """
    return f"{release_folder(output, release_key)}/{DRAFT_FOLDER}/claim.json"


@dataclass(frozen=True, kw_only=True)
class ReleaseLayout:
    """The URIs of one release's objects.

    Attributes:
        root: URI of the release's folder.
        draft: URI of the folder that one charge's attempts share.
    """

    root: str
    draft: str

    @classmethod
    def of(cls, output: str, release_key: str, charge_id: str) -> ReleaseLayout:
        """The layout of ``release_key`` under ``output``, paid by ``charge_id``.

        Raises:
            InvalidRequest: the key is empty, or the charge id does not have the form of a ledger's.
        """
        if not _CHARGE_ID.fullmatch(charge_id):
            raise InvalidRequest("charge", charge_id, "must be a charge id of the ledger", "reserve the release first")
        root = release_folder(output, release_key)
        return cls(root=root, draft=f"{root}/{DRAFT_FOLDER}/{charge_id}")

    @property
    def manifest(self) -> str:
        """URI of the visible manifest."""
        return f"{self.root}/{MANIFEST_NAME}"

    @property
    def receipt(self) -> str:
        """URI of the commit's receipt."""
        return f"{self.root}/{RECEIPT_NAME}"

    @property
    def request(self) -> str:
        """URI of the charged request."""
        return f"{self.draft}/request.json"

    @property
    def account(self) -> str:
        """URI of the account's figures when the request was charged, a ``spark_jobs.contract.account.AccountState``."""
        return f"{self.draft}/account.json"

    @property
    def draw(self) -> str:
        """URI of the draw."""
        return f"{self.draft}/draw.json"

    def statement(self, run: int) -> str:
        """URI of the statement that the run with this number read no row."""
        return f"{self.draft}/run-{run}.json"

    def handle(self, run: int) -> str:
        """URI of the handle of the application of the run with this number."""
        return f"{self.draft}/handle-{run}.json"

    @property
    def draft_manifest(self) -> str:
        """URI of the manifest before it is published."""
        return f"{self.draft}/{MANIFEST_NAME}"

    def draft_file(self, name: str) -> str:
        """URI of a release's file before it is published.

        Raises:
            ValueError: a release's file cannot have this name.
        """
        return f"{self.draft}/files/{_checked(name)}"

    def file(self, name: str) -> str:
        """URI of a published file.

        Raises:
            ValueError: a release's file cannot have this name.
        """
        return f"{self.root}/{_checked(name)}"


def _checked(name: str) -> str:
    taken = name in (MANIFEST_NAME, RECEIPT_NAME) or name.split("/")[0] == DRAFT_FOLDER
    if taken or not _FILE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a release's file")
    return name
