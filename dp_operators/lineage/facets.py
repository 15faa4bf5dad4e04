"""The lineage of a release: its input with version and columns, its output, its privacy cost and its guarantee.

All fields come from a ``ReleaseEvent``: names, budgets and hashes, but no figure of the release. The schemas of the two
run facets are in the folder ``schemas`` beside this module.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dp_operators import configuration

if TYPE_CHECKING:
    from dp_operators.tasks.events import ReleaseEvent

COST, GUARANTEE = "PrivacyCostRunFacet", "PrivacyGuaranteeRunFacet"
_OF_COST = ("account", "key", "cost", "left", "status", "manifest_sha256")


def cost_of(event: ReleaseEvent) -> dict[str, Any]:
    """The fields of the run facet with the cost of a release."""
    fields = event.to_dict()
    return {name: fields[name] for name in _OF_COST}


def guarantee_of(event: ReleaseEvent) -> dict[str, Any]:
    """The fields of the run facet with the guarantee of a release."""
    request = event.request
    return {
        "guarantee": "differentially private",
        "neighbours": request.neighbours.value,
        "unit": ", replaced by another of ".join(filter(None, (request.unit.describe(), request.replaced_within))),
        "diagnostics": [options.kind for options in request.diagnostics],
        "blocks": request.written_blocks,
        "request_sha256": request.sha256,
    }


def dataset_name(identity: str) -> dict[str, str]:
    """The namespace and the name of a table or a folder, as OpenLineage names data sets."""
    parts = urlsplit(identity)
    if parts.scheme == "catalog":
        return {"namespace": configuration.lineage_namespace(), "name": parts.path}
    if parts.scheme == "jdbc":
        connection, _, table = parts.path.partition(".")
        return {"namespace": f"jdbc:{connection}", "name": table}
    if parts.scheme in ("", "file"):
        return {"namespace": "file", "name": parts.path}
    return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.strip("/") or "/"}


def schema_of(facet: str) -> dict[str, Any]:
    """The JSON Schema of a run facet, by the name of its class."""
    text = resources.files("dp_operators.lineage").joinpath("schemas", f"{facet}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
