"""Where the objects of a release lie, and how an application tells its caller how it went.

::

    OUTPUT/<release>/                    one folder per release key
        release.json                     the manifest; its presence makes the release visible
        report.html, *.parquet, *.svg    the release's files
        receipt.json                     written after the commit, with the head of the audit log
        _draft/<charge>/                 what attempts share until the commit
            request.json                 the request as it was charged
            draw.json                    the noisy statistics: one object, by exclusive create; or a tombstone
            release.json, files/...      the manifest and files that will be published
            refusal.json                 why the request cannot be served, where that is so
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """How ``python -m spark_jobs`` ends; none of them depends on the data."""

    DONE = 0
    FAILED = 1
    REFUSED = 2


class Stage(StrEnum):
    """The public stages of an application: all that its caller's log ever shows of it."""

    STARTING = "starting"
    READING = "reading"
    COUNTING = "counting"
    DRAWING = "drawing"
    WRITING = "writing"
    DONE = "done"


STAGE_PREFIX = "dp-diagnostics-stage"
STAGE_NONCE_VARIABLE = "DP_STAGE_NONCE"
"""Names the variable with the run's secret word; a line counts as a stage only if it carries that word."""

SALT_VARIABLE = "DP_DIAGNOSTICS_SALT"
SALT_FILE_VARIABLE = "DP_DIAGNOSTICS_SALT_FILE"


def stage_line(stage: Stage, nonce: str) -> str:
    """The line an application prints when it enters ``stage``."""
    return f"{STAGE_PREFIX} {nonce} {stage.value}"


def read_stage(line: str, nonce: str) -> Stage | None:
    """The stage that ``line`` announces; None for any other line, whatever it holds."""
    for stage in Stage:
        if line.strip() == stage_line(stage, nonce):
            return stage
    return None


def folder_name(release_key: str) -> str:
    """A folder name for a release key: readable, safe in any store, and different for different keys."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", release_key).strip("-").lower()[:60]
    return f"{readable}-{hashlib.sha256(release_key.encode()).hexdigest()[:12]}"


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
        """The layout of ``release_key`` under ``output``, paid by ``charge_id``."""
        root = f"{output.rstrip('/')}/{folder_name(release_key)}"
        return cls(root=root, draft=f"{root}/_draft/{charge_id}")

    @property
    def manifest(self) -> str:
        """URI of the visible manifest."""
        return f"{self.root}/release.json"

    @property
    def receipt(self) -> str:
        """URI of the commit's receipt."""
        return f"{self.root}/receipt.json"

    @property
    def request(self) -> str:
        """URI of the charged request."""
        return f"{self.draft}/request.json"

    @property
    def draw(self) -> str:
        """URI of the draw, or of the tombstone in its place."""
        return f"{self.draft}/draw.json"

    @property
    def refusal(self) -> str:
        """URI of the refusal."""
        return f"{self.draft}/refusal.json"

    @property
    def draft_manifest(self) -> str:
        """URI of the manifest before it is published."""
        return f"{self.draft}/release.json"

    def draft_file(self, name: str) -> str:
        """URI of a release's file before it is published."""
        return f"{self.draft}/files/{name}"

    def file(self, name: str) -> str:
        """URI of a published file."""
        return f"{self.root}/{name}"
