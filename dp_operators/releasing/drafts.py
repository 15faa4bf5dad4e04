"""Drafts: what an application left in the store, read back and made visible."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dp_operators.releasing.errors import ReleaseDamaged
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import SealBroken, sha256


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


def document(fields: object) -> bytes:
    """A small JSON document; equal fields always give equal bytes."""
    return (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode()


def require_releases(store: ObjectStore, output: str) -> None:
    """Refuse a folder in which nothing was ever released: a name with a slip in it would pass for one without faults.

    Raises:
        InvalidRequest: it holds no object at all, or is none.
        OSError: the store failed.
    """
    if next(iter(store.names(output)), None) is None:
        raise InvalidRequest(
            "output", value=output, requirement="must be a folder of releases, and nothing is in it",
            remedy="correct the path: it is the folder that releases lie in",
        )  # fmt: skip


def read_draft(folder: DraftFolder) -> Draft | None:
    """The draft that one draw decided; None as long as anything of it is missing.

    Raises:
        ReleaseDamaged: what is there was not made from this draw, or does not fit together.
        OSError: the store failed.
    """
    try:
        manifest = folder.read_manifest()
        if manifest is None:
            return None
        release = Release.from_json(manifest)
        files = {file.name: folder.read_file(file.name) for file in release.files}
    except SealBroken as broken:
        raise ReleaseDamaged(f"{folder.layout.draft}: {broken}; its draft is none of this draw's") from None
    except ValueError:
        raise ReleaseDamaged(f"{folder.layout.draft_manifest} is not a manifest") from None
    whole = {}
    for file in release.files:
        content = files[file.name]
        if content is None:
            return None
        if (len(content), sha256(content)) != (file.size, file.sha256):
            raise ReleaseDamaged(f"{folder.layout.draft_file(file.name)} is not what its manifest says")
        whole[file.name] = content
    return Draft(manifest=manifest, release=release, files=whole)


def missing_files(store: ObjectStore, layout: ReleaseLayout, manifest: bytes) -> tuple[str, ...]:
    """The names of a visible release's files that are gone.

    Raises:
        ReleaseDamaged: a file is there and is not the one that its manifest lists.
        OSError: the store failed.
    """
    missing = []
    for file in Release.from_json(manifest).files:
        content = store.read(layout.file(file.name))
        if content is None:
            missing.append(file.name)
        elif (len(content), sha256(content)) != (file.size, file.sha256):
            raise ReleaseDamaged(f"{layout.file(file.name)} is not what its manifest says")
    return tuple(missing)


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
