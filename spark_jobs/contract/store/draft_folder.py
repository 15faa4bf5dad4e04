"""The sealed objects that are made from one draw: the draft's files and its manifest."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.store.layout import MANIFEST_NAME, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal


@dataclass(frozen=True, kw_only=True)
class DraftFolder:
    """Writes and reads the draft that is made from one draw; objects made from another draw cannot be opened.

    The ``read_`` methods return None if there is no such object.

    Attributes:
        store, layout: the store, and the draft's URIs in it.
        seal: the seal of the draft's charge.
        draw_sha256: hash of the sealed draw.
    """

    store: ObjectStore
    layout: ReleaseLayout
    seal: Seal
    draw_sha256: str

    def create_manifest(self, content: bytes) -> bool:
        """Create the manifest unless it exists; see ``ObjectStore.create``."""
        return self._create(self.layout.draft_manifest, MANIFEST_NAME, content)

    def read_manifest(self) -> bytes | None:
        """The content of the draft's manifest.

        Raises:
            SealBroken: the stored object is not the manifest of this draft.
            OSError: the store failed.
        """
        return self._read(self.layout.draft_manifest, MANIFEST_NAME)

    def create_file(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists; see ``ObjectStore.create``."""
        return self._create(self.layout.draft_file(name), f"files/{name}", content)

    def read_file(self, name: str) -> bytes | None:
        """The content of a file of the draft.

        Raises:
            SealBroken: the stored object is not this file of this draft.
            OSError: the store failed.
        """
        return self._read(self.layout.draft_file(name), f"files/{name}")

    def _create(self, uri: str, name: str, content: bytes) -> bool:
        return self.store.create(uri, self.seal.close(name, content, draw_sha256=self.draw_sha256))

    def _read(self, uri: str, name: str) -> bytes | None:
        sealed = self.store.read(uri)
        return None if sealed is None else self.seal.open(name, sealed, draw_sha256=self.draw_sha256)
