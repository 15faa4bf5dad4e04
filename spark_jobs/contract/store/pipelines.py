"""Saved pipelines as files: which files are allowed, and one hash of all their contents.

A folder that Spark wrote has one metadata file of its own and one folder for each stage, named ``{index}_{uid}``.
Anything else is rejected, so that nobody has to know what Spark would do with it. Hidden files, which Spark does not
read (checksums, markers), are ignored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.objects import LocalStore, local_path, open_store

PIPELINE_CLASS = "org.apache.spark.ml.PipelineModel"
MAX_BYTES = 2**30
"""The most bytes of all files of a pipeline together."""
WORKER_SCHEMES = ("file://", "s3://", "gs://", "abfss://")
"""The stores that can be read without Spark."""

_FILE = re.compile(r"(?:(?P<stage>stages/\w[\w.-]*)/)?(?P<folder>metadata|data|treesMetadata)/part-[\w.-]+", re.ASCII)
_UID = re.compile(r"\w[\w-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SavedPipeline:
    """What is known of a saved pipeline without loading it.

    Attributes:
        sha256: hash of the names and the contents of its files.
        stages: for each stage, in order: its folder, relative to the pipeline's folder, and its metadata.
    """

    sha256: str
    stages: tuple[tuple[str, Mapping[str, Any]], ...]

    @classmethod
    def of(cls, hashes: Mapping[str, str], metadata: Mapping[str, bytes]) -> SavedPipeline:
        """The pipeline of these files.

        Args:
            hashes: the SHA-256 of each file that is not hidden, by its path relative to the pipeline's folder.
            metadata: the content of each of these files that lies in a folder called ``metadata``, by the same path.

        Raises:
            ValueError: the files are not those that Spark writes for a ``PipelineModel`` of its own classes.
        """
        if not all(_FILE.fullmatch(name) for name in hashes):
            raise ValueError("a file that does not belong to a pipeline")
        whole = _metadata(metadata, "")
        uids = whole["paramMap"]["stageUids"]
        if whole["class"] != PIPELINE_CLASS or not uids or not all(_UID.fullmatch(uid) for uid in uids):
            raise ValueError("not a pipeline of Spark's own classes")
        digits = len(str(len(uids)))
        folders = [f"stages/{place:0{digits}d}_{uid}" for place, uid in enumerate(uids)]
        present = {match["stage"] for match in map(_FILE.fullmatch, hashes) if match is not None} - {None}
        if present != set(folders) or len(set(uids)) != len(uids):
            raise ValueError("a folder that does not belong to a stage")
        text = json.dumps(dict(hashes), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return cls(
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            stages=tuple((folder, _metadata(metadata, f"{folder}/")) for folder in folders),
        )


def hidden(name: str) -> bool:
    """Whether Spark ignores the file at this path, as it ignores checksums and markers of success."""
    return any(
        (part.startswith("_") and "=" not in part and not part.startswith(("_metadata", "_common_metadata")))
        or part.startswith(".")
        or part.endswith("._COPYING_")
        for part in name.split("/")
    )


def is_metadata(name: str) -> bool:
    """Whether the file at this path describes the pipeline or one of its stages."""
    return name.split("/")[-2:-1] == ["metadata"]


def read_pipeline(path: str, *, what: str = "model.path") -> SavedPipeline:
    """The pipeline that is saved in a store which this machine can read.

    Args:
        path: URI of its folder.
        what: the field of the request that names it, for messages.

    Raises:
        InvalidRequest: the folder does not contain a pipeline, or contains other files, or the store cannot be read.
    """
    folder = Place.of_folder(path, what=what).identity
    hashes, metadata, size = {}, {}, 0
    store = open_store(folder, what=what)
    try:
        for name in store.names(folder):
            if hidden(name):
                continue
            uri = f"{folder}/{name}"
            if isinstance(store, LocalStore) and local_path(uri).is_symlink():
                raise ValueError("a link, which may lead anywhere")
            content = store.read(uri) or b""
            size += len(content)
            if size > MAX_BYTES or not _FILE.fullmatch(name):
                raise ValueError("too large, or a file that does not belong to a pipeline")
            hashes[name] = hashlib.sha256(content).hexdigest()
            if is_metadata(name):
                metadata[name] = content
        return SavedPipeline.of(hashes, metadata)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise refused_pipeline(path, what=what) from None


def refused_pipeline(path: str, *, what: str = "model.path") -> InvalidRequest:
    """The error for a folder that does not contain exactly one saved pipeline."""
    return InvalidRequest(
        what, path, "must hold a readable PipelineModel of Spark's own classes and nothing else",
        "check the path, and save the fitted pipeline again with its save()",
    )  # fmt: skip


def _metadata(contents: Mapping[str, bytes], folder: str) -> Mapping[str, Any]:
    """The metadata in the only file of a folder: one line, which names one of Spark's own classes."""
    (content,) = (content for name, content in contents.items() if name.startswith(f"{folder}metadata/"))
    fields = json.loads(content)
    if b"\n" in content.rstrip(b"\n") or not isinstance(fields["paramMap"], dict):
        raise ValueError("not the one line of metadata that Spark writes")
    # metadata that Python saved names a Python class, which would be imported by that name
    if "language" in fields or "language" in fields["paramMap"]:
        raise ValueError("saved by Python")
    return dict(fields)
