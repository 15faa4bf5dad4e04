"""The lineage of a release in the classes of OpenLineage; imported only where they are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet, dataset_version_dataset, schema_dataset

from dp_operators.lineage.facets import COST, GUARANTEE, cost_of, dataset_name, guarantee_of, schema_of

if TYPE_CHECKING:
    from dp_operators.tasks.events import ReleaseEvent


@attr.define(kw_only=True)
class PrivacyCostRunFacet(RunFacet):
    """What a release cost, and what its account has left.

    Attributes:
        account: the account that paid.
        key: the release key.
        cost: the budget that was charged, as exact decimals.
        left: the largest charge that still fits in the release's blocks.
        status: the status of each kind of diagnostic.
        manifest_sha256: hash of the manifest that the ledger committed.
    """

    account: str
    key: str
    cost: dict[str, str | None]
    left: dict[str, str | None]
    status: dict[str, str]
    manifest_sha256: str

    @staticmethod
    def _get_schema() -> str:
        return str(schema_of(COST)["$id"])


@attr.define(kw_only=True)
class PrivacyGuaranteeRunFacet(RunFacet):
    """The guarantee of a release.

    Attributes:
        guarantee: ``differentially private``.
        neighbours: the relation of the guarantee.
        unit: the privacy unit in words.
        diagnostics: the kinds of diagnostics.
        blocks: the blocks that were read and charged, in words.
        request_sha256: hash of the request.
    """

    guarantee: str
    neighbours: str
    unit: str
    diagnostics: list[str]
    blocks: str
    request_sha256: str

    @staticmethod
    def _get_schema() -> str:
        return str(schema_of(GUARANTEE)["$id"])


def operator_lineage(event: ReleaseEvent) -> Any:
    """The ``OperatorLineage`` of a release."""
    table, version = event.request.table, dataset_version_dataset.DatasetVersionDatasetFacet
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=kind or None) for name, kind in event.columns.items()
    ]
    read = {
        "version": version(datasetVersion=table.snapshot.describe()),
        "schema": schema_dataset.SchemaDatasetFacet(fields=columns),
    }
    written = {"version": version(datasetVersion=event.published.manifest_sha256)}
    return OperatorLineage(
        inputs=[InputDataset(**dataset_name(table.identity), facets=read)],
        outputs=[OutputDataset(**dataset_name(event.published.uri), facets=written)],
        run_facets={
            "privacyCost": PrivacyCostRunFacet(**cost_of(event)),
            "privacyGuarantee": PrivacyGuaranteeRunFacet(**guarantee_of(event)),
        },
    )
