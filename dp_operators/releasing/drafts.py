"""Drafts: what an application wrote to the store, read back, checked and published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dp_operators.releasing.errors import ReleaseDamaged, as_release_errors
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import MANIFEST_NAME, MAX_MANIFEST, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import SealBroken, sha256


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A complete draft: a manifest, and every file that it lists.

    Attributes:
        manifest: the manifest's bytes, whose hash is committed.
        release: the parsed manifest.
        files: the content of each file, by name.
    """

    manifest: bytes
    release: Release
    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """Hash of the manifest, which holds the hashes of the files."""
        return sha256(self.manifest)


def document(fields: object) -> bytes:
    """A small JSON document; equal fields always give equal bytes."""
    return (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode()


def require_releases(store: ObjectStore, output: str) -> None:
    """Refuse an empty folder, in which a mistyped name would otherwise pass as a folder without findings.

    Raises:
        InvalidRequest: the folder is empty or missing.
        OSError: the store failed.
    """
    if next(iter(store.names(output)), None) is None:
        raise InvalidRequest(
            "output", output, "must be a folder of releases, and this folder is empty",
            "correct the path of the folder that holds releases",
        )  # fmt: skip


def read_manifest(store: ObjectStore, folder: str, *, what: str, remedy: str) -> bytes:
    """The manifest in a release's folder.

    Args:
        store: holds the folder.
        folder: URI of the release's folder.
        what: the field that names the release; the error message begins with it.
        remedy: what to do if there is no release in the folder.

    Raises:
        InvalidRequest: the folder has no manifest.
        ReleaseFailed: the store failed.
    """
    with as_release_errors():
        content = store.read(f"{folder}/{MANIFEST_NAME}", limit=MAX_MANIFEST)
    if content is None:
        raise InvalidRequest(what, folder, f"must be a folder that holds {MANIFEST_NAME}", remedy)
    return content


def read_draft(folder: DraftFolder) -> Draft | None:
    """The draft that was made from one draw; None as long as its manifest or a file is missing.

    Raises:
        ReleaseDamaged: the draft was not made from this draw, or its files differ from its manifest.
        OSError: the store failed.
    """
    try:
        manifest = folder.read_manifest()
        if manifest is None:
            return None
        release = Release.from_json(manifest)
        files = {file.name: folder.read_file(file.name) for file in release.files}
    except SealBroken as broken:
        raise ReleaseDamaged(f"{folder.layout.draft}: {broken}; the draft was not made from this draw") from None
    except ValueError:
        raise ReleaseDamaged(f"{folder.layout.draft_manifest} is not a manifest") from None
    whole = {}
    for file in release.files:
        content = files[file.name]
        if content is None:
            return None
        if not file.matches(content):
            raise ReleaseDamaged(f"{folder.layout.draft_file(file.name)} is not what its manifest says")
        whole[file.name] = content
    return Draft(manifest=manifest, release=release, files=whole)


def missing_files(store: ObjectStore, layout: ReleaseLayout, manifest: bytes) -> tuple[str, ...]:
    """The names of a visible release's missing files.

    Raises:
        ReleaseDamaged: a file differs from the one that the manifest lists.
        OSError: the store failed.
    """
    missing = []
    for file in Release.from_json(manifest).files:
        content = file.read(store, layout.root)
        if content is None:
            missing.append(file.name)
        elif not file.matches(content):
            raise ReleaseDamaged(f"{layout.file(file.name)} is not what its manifest says")
    return tuple(missing)


def publish(store: ObjectStore, layout: ReleaseLayout, draft: Draft) -> None:
    """Make a committed draft visible, its files first and its manifest last; repeating this changes nothing.

    Raises:
        ReleaseDamaged: an object of the same name has other content.
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
    if not store.create(uri, content):
        raise ReleaseDamaged(f"{uri} differs from what was committed")
