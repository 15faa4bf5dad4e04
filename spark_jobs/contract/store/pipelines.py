"""Saved pipelines as files: what there may be, and one hash of all that they hold.

A folder that Spark wrote has one metadata file of its own and one folder a stage, named ``{index}_{uid}``. Whatever
else lies there is refused: what Spark would make of it is a question that nobody has to answer. Hidden files, which
Spark does not read (checksums, markers), do not count.
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
"""Of all files of a pipeline together."""
WORKER_SCHEMES = ("file://", "s3://")
"""Stores that are read without Spark."""

_FILE = re.compile(r"(?:(?P<stage>stages/\w[\w.-]*)/)?(?P<folder>metadata|data|treesMetadata)/part-[\w.-]+", re.ASCII)
_UID = re.compile(r"\w[\w-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SavedPipeline:
    """What is known of a saved pipeline without loading anything of it.

    Attributes:
        sha256: of the names and the contents of its files.
        stages: the folder of each stage below the pipeline's, in order, and its metadata.
    """

    sha256: str
    stages: tuple[tuple[str, Mapping[str, Any]], ...]

    @classmethod
    def of(cls, hashes: Mapping[str, str], metadata: Mapping[str, bytes]) -> SavedPipeline:
        """The pipeline of these files.

        Args:
            hashes: the SHA-256 of each file that is not hidden, by its path below the pipeline's folder.
            metadata: the content of each of them whose folder is called ``metadata``.

        Raises:
            ValueError: they are not what Spark writes for a ``PipelineModel`` of its own classes.
        """
        if not all(_FILE.fullmatch(name) for name in hashes):
            raise ValueError("a file that no pipeline has")
        whole = _metadata(metadata, "")
        uids = whole["paramMap"]["stageUids"]
        if whole["class"] != PIPELINE_CLASS or not uids or not all(_UID.fullmatch(uid) for uid in uids):
            raise ValueError("no pipeline of Spark's own")
        digits = len(str(len(uids)))
        folders = [f"stages/{place:0{digits}d}_{uid}" for place, uid in enumerate(uids)]
        present = {match["stage"] for match in map(_FILE.fullmatch, hashes) if match is not None} - {None}
        if present != set(folders) or len(set(uids)) != len(uids):
            raise ValueError("a folder that is no stage's")
        text = json.dumps(dict(hashes), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return cls(
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            stages=tuple((folder, _metadata(metadata, f"{folder}/")) for folder in folders),
        )


def hidden(name: str) -> bool:
    """Whether Spark reads past the file of this path, as it does past checksums and markers of success."""
    return any(
        (part.startswith("_") and "=" not in part and not part.startswith(("_metadata", "_common_metadata")))
        or part.startswith(".")
        or part.endswith("._COPYING_")
        for part in name.split("/")
    )


def is_metadata(name: str) -> bool:
    """Whether the file of this path says what the pipeline or a stage of it is."""
    return name.split("/")[-2:-1] == ["metadata"]


def read_pipeline(path: str, *, what: str = "model.path") -> SavedPipeline:
    """The pipeline saved in a store that this machine reads.

    Args:
        path: URI of its folder.
        what: the field of the request that names it, for refusals.

    Raises:
        InvalidRequest: there is none, it holds something else beside it, or the store cannot be read.
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
                raise ValueError("more than a pipeline")
            hashes[name] = hashlib.sha256(content).hexdigest()
            if is_metadata(name):
                metadata[name] = content
        return SavedPipeline.of(hashes, metadata)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise refused_pipeline(path, what=what) from None


def refused_pipeline(path: str, *, what: str = "model.path") -> InvalidRequest:
    """The one refusal of a folder that holds no pipeline, or something else with it."""
    return InvalidRequest(
        what,
        value=path,
        requirement="must hold a PipelineModel of Spark's own classes and nothing else, which can be read",
        remedy="check the path, and save the fitted pipeline anew with its save()",
    )


def _metadata(contents: Mapping[str, bytes], folder: str) -> Mapping[str, Any]:
    """The metadata in the one file of a folder, which is one line, of a class of Spark's own."""
    (content,) = (content for name, content in contents.items() if name.startswith(f"{folder}metadata/"))
    fields = json.loads(content)
    if b"\n" in content.rstrip(b"\n") or not isinstance(fields["paramMap"], dict):
        raise ValueError("not the one line of metadata that Spark writes")
    # what Python saved names its class as Python's, and would be imported by that name
    if "language" in fields or "language" in fields["paramMap"]:
        raise ValueError("saved by Python")
    return dict(fields)
