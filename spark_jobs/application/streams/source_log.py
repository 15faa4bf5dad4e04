"""Reads what Spark's checkpoint of a followed stream has planned: offsets, and the files of each micro-batch.

The checkpoint has one file for each micro-batch, with the offset up to which its source is read, and a log of the
source: the new files of each offset, in one log file per offset, or, from time to time, all files so far in one log
file. The hash of such a history is the same in both forms of the log. Each micro-batch extends the hash of the previous
one. So if two copies of a checkpoint plan different files in one micro-batch, their hashes differ from then on, even if
their later files are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass

from spark_jobs.contract.store.objects import ObjectStore

_COMPACT = ".compact"


class LogMissingError(Exception):
    """The checkpoint lacks a file that it must have for a planned micro-batch."""


@dataclass(frozen=True, kw_only=True)
class SourceLog:
    """The log of one checkpoint.

    Attributes:
        store, folder: where the checkpoint is.
    """

    store: ObjectStore
    folder: str

    @property
    def identity(self) -> str:
        """The identity of the query.

        Raises:
            LogMissingError: the checkpoint has no identity.
        """
        try:
            return str(json.loads(self._file("metadata"))["id"])
        except (ValueError, KeyError, TypeError):
            raise LogMissingError("metadata") from None

    def history(self, batch: int) -> str:
        """The hash of all files, with their times, and all offsets up to a micro-batch; empty before the first.

        Raises:
            LogMissingError: the micro-batch, or a file of the log that it needs, is not there.
        """
        if batch < 0:
            return ""
        try:
            last = int(json.loads(self._file(f"offsets/{batch}").splitlines()[-1])["logOffset"])
            planned: dict[int, list[tuple[str, int]]] = defaultdict(list)
            for line in self._entries(last):
                entry = json.loads(line)
                planned[int(entry["batchId"])].append((str(entry["path"]), int(entry["timestamp"])))
        except (ValueError, KeyError, TypeError, IndexError):
            raise LogMissingError(f"micro-batch {batch}") from None
        digest = ""
        for offset in sorted(planned):
            if offset <= last:
                content = json.dumps([digest, offset, sorted(planned[offset])])
                digest = hashlib.sha256(content.encode()).hexdigest()
        return hashlib.sha256(f"{batch} {last} {digest}".encode()).hexdigest()

    def _entries(self, last: int) -> list[str]:
        """The lines of all files of the log up to an offset; each file begins with a line that states its version."""
        lines: list[str] = []
        for offset in range(last, -1, -1):
            plain = self.store.read(f"{self.folder}/sources/0/{offset}")
            if plain is not None:
                lines += plain.decode().splitlines()[1:]
                continue
            lines += self._file(f"sources/0/{offset}{_COMPACT}").splitlines()[1:]
            break
        return lines

    def _file(self, name: str) -> str:
        content = self.store.read(f"{self.folder}/{name}")
        if content is None:
            raise LogMissingError(name)
        return content.decode(errors="replace")
