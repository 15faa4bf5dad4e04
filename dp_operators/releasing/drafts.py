"""Drafts: what an application left in the store, read back and made visible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from dp_operators.releasing.errors import ReleaseDamaged
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.layout import ReleaseLayout
from spark_jobs.contract.release import Release
from spark_jobs.contract.stores import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A complete draft: a manifest, and every file that it lists.

    Attributes:
        manifest: its bytes; what is committed is their hash.
        release: what they say.
        files: the files' contents, by name.
    """

    manifest: bytes
    release: Release
    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """Hash of the manifest, which holds the hashes of the files."""
        return sha256(self.manifest)


def sha256(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def document(fields: object) -> bytes:
    """A small JSON document; equal fields always give equal bytes."""
    return (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode()


def require_releases(store: ObjectStore, output: str) -> None:
    """Refuse a folder in which nothing was ever released: a name with a slip in it would pass for one without faults.

    Raises:
        RequestRefused: it holds no object at all, or is none.
        OSError: the store failed.
    """
    if next(iter(store.names(output)), None) is None:
        raise RequestRefused(
            "output", given=output, bound="must be a folder of releases, and nothing is in it",
            remedy="correct the path: it is the folder that releases lie in",
        )  # fmt: skip


def read_draft(store: ObjectStore, layout: ReleaseLayout) -> Draft | None:
    """The draft in the store; None as long as anything of it is missing.

    Raises:
        ReleaseDamaged: what is there does not fit together.
        OSError: the store failed.
    """
    manifest = store.read(layout.draft_manifest)
    if manifest is None:
        return None
    try:
        release = Release.from_json(manifest)
        places = {file: layout.draft_file(file.name) for file in release.files}
    except ValueError:
        raise ReleaseDamaged(f"{layout.draft_manifest} is not a manifest") from None
    files = {}
    for file, place in places.items():
        content = store.read(place)
        if content is None:
            return None
        if (len(content), sha256(content)) != (file.size, file.sha256):
            raise ReleaseDamaged(f"{place} is not what its manifest says")
        files[file.name] = content
    return Draft(manifest=manifest, release=release, files=files)


def publish(store: ObjectStore, layout: ReleaseLayout, draft: Draft) -> None:
    """Make a committed draft visible: its files first, its manifest last. Doing it again changes nothing.

    Raises:
        ReleaseDamaged: another release's object is in the way.
        OSError: the store failed.
    """
    failpoint("before_publish_files")
    for name, content in draft.files.items():
        _put(store, layout.file(name), content)
    failpoint("after_publish_files")
    failpoint("before_publish_manifest")
    _put(store, layout.manifest, draft.manifest)
    failpoint("after_publish_manifest")


def _put(store: ObjectStore, uri: str, content: bytes) -> None:
    if not store.create(uri, content) and store.read(uri) != content:
        raise ReleaseDamaged(f"{uri} holds something else than what was committed")
