"""Readers of the documents that hold a request, or a model for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.contract.documents import parse_json, parse_yaml
from spark_jobs.contract.errors import InvalidRequest

GATE = "gate"
"""What may stand beside the fields of a request in its file; see ``contract.gates``."""


def json_fields(text: str | bytes) -> dict[str, Any]:
    """The fields of a request in a JSON document.

    Raises:
        InvalidRequest: the text is not a JSON object.
    """
    return _an_object(parse_json(text))


def yaml_fields(text: str | bytes) -> dict[str, Any]:
    """The fields of a request in a YAML document.

    Raises:
        InvalidRequest: the text is not a YAML object.
    """
    return _an_object(parse_yaml(text))


def load_fields(path: str | Path) -> dict[str, Any]:
    """The fields of a request in a ``.json``, ``.yaml`` or ``.yml`` file.

    Raises:
        InvalidRequest: the file cannot be read, or does not contain an object.
    """
    path = Path(path)
    text = _content(path, "request")
    return yaml_fields(text) if path.suffix in (".yaml", ".yml") else json_fields(text)


def without_gate(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request's file without its gate, which decides only whether a task or command succeeds."""
    return {name: value for name, value in fields.items() if name != GATE}


def load_model(path: str | Path) -> dict[str, Any]:
    """The model in a JSON file, as a request's ``model`` field takes it.

    Whoever writes the request names the file, but may not be allowed to read it: no message shows the content of a file
    that is not a model.

    Raises:
        InvalidRequest: the file cannot be read, or contains no JSON object of a known kind of model.
    """
    from spark_jobs.contract.tables import MODEL_KINDS

    model = _an_object(parse_json(_content(Path(path), "model"), what="model"), "model")
    if model.get("kind") not in MODEL_KINDS:
        raise InvalidRequest(
            "model", str(path), f"must be a file with a model, whose kind is {', '.join(MODEL_KINDS)}",
            "name another file, or correct its kind",
        )  # fmt: skip
    return model


def _content(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise InvalidRequest(what, str(path), "must be a file that can be read", "check the path") from None


def _an_object(data: Any, what: str = "request") -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidRequest(
            what, type(data).__name__, "must be an object with named fields", "see the request reference"
        )
    return data
