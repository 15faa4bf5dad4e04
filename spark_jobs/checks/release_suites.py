"""Suites of Great Expectations for the files of a published release: a checkpoint, and its data docs.

A release is noisy and published, so a suite may expect anything of it, at no cost. The files are those of the manifest,
compared with their hashes: tables in Parquet or CSV, and ``release.json``, whose row has the figures of all results by
their names (``contract.figure_names``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import figure_columns
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import MANIFEST_NAME
from spark_jobs.contract.store.objects import ObjectStore, open_store

READERS = (".parquet", ".csv")


def check_suites(release: str, suites: Mapping[str, Any], *, data_docs: str | None = None) -> list[str]:
    """The expectations that a release does not meet, each in a line.

    Args:
        release: URI of the release's folder.
        suites: for each file of the release, a suite in the JSON form of ``ExpectationSuite.to_json_dict()``.
        data_docs: folder for the pages that the library makes of the suites and their results; None for no pages.

    Raises:
        InvalidRequest: there is no such release or file, a file is not the manifest's, a suite is not valid, or Great
            Expectations is not installed.
    """
    gx = _great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    actions = []
    if data_docs is not None:
        actions.append(gx.checkpoint.UpdateDataDocsAction(name="data_docs", site_names=[_add_site(context, data_docs)]))
    with TemporaryDirectory() as folder:
        batches = _batches(context.data_sources.add_pandas("release"), release, suites, Path(folder))
        definitions = [
            context.validation_definitions.add(
                gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add(_suite(gx, name, suites[name])))
            )
            for name, batch in batches.items()
        ]
        checkpoint = context.checkpoints.add(
            gx.Checkpoint(name="release", validation_definitions=definitions, actions=actions)
        )
        results = checkpoint.run().run_results
    unmet = []
    for name, result in zip(batches, results.values(), strict=True):
        failed = [outcome for outcome in result.results if not outcome.success]
        unmet += [f"{name}: {_described(outcome.expectation_config)}" for outcome in failed]
    return unmet


def _great_expectations() -> Any:
    """The library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    try:
        import great_expectations
    except ImportError:
        raise InvalidRequest(
            "suites", requirement="need Great Expectations", remedy="install dp-diagnostics[expectations]"
        ) from None
    return great_expectations


def _add_site(context: Any, folder: str) -> str:
    site = {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(Path(folder).absolute())},
    }
    context.add_data_docs_site(site_name="release", site_config=site)
    return "release"


def _batches(source: Any, release: str, suites: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What each suite is for, as the library reads it: verified copies of the release's files."""
    store = open_store(release)
    content = store.read(f"{release.rstrip('/')}/{MANIFEST_NAME}")
    if content is None:
        raise InvalidRequest(
            "release", value=release, requirement="must be the folder of a release", remedy="correct the URI"
        )
    manifest = Release.from_json(content)
    batches = {}
    for number, name in enumerate(suites):
        path = folder / f"{number}{Path(name).suffix}"
        if name == MANIFEST_NAME:
            path = path.with_suffix(".parquet")
            pd.DataFrame([figure_columns(manifest.results)]).to_parquet(path)
        else:
            path.write_bytes(_verified(store, release, manifest, name))
        add = source.add_csv_asset if path.suffix == ".csv" else source.add_parquet_asset
        batches[name] = add(name, path).add_batch_definition("whole")
    return batches


def _verified(store: ObjectStore, release: str, manifest: Release, name: str) -> bytes:
    entry = next((file for file in manifest.files if file.name == name and name.endswith(READERS)), None)
    if entry is None:
        tables = [file.name for file in manifest.files if file.name.endswith(READERS)]
        raise InvalidRequest(
            "suites", value=name, requirement=f"must be one of {', '.join((*tables, MANIFEST_NAME))}",
            remedy="name a table of the release",
        )  # fmt: skip
    content = store.read(f"{release.rstrip('/')}/{name}")
    if content is None or not entry.matches(content):
        raise InvalidRequest(
            "release", value=release, requirement=f"must hold {name} as its manifest says", remedy="verify the release"
        )
    return content


def _suite(gx: Any, name: str, fields: Any) -> Any:
    try:
        listed = [dict(expectation) for expectation in fields["expectations"]]
        suite = gx.ExpectationSuite(**{**fields, "id": None, "name": name})
        # the library leaves out, with a line in its log, an expectation that it does not know
        known = {expectation.expectation_type for expectation in suite.expectations}
        unknown = [expectation["type"] for expectation in listed if expectation["type"] not in known]
        problem = f"has no expectation {unknown[0]}" if unknown else "" if listed else "needs an expectation"
    except Exception as error:  # the library has many kinds of errors for what people write
        problem = (str(error).splitlines() or [type(error).__name__])[0][:200]
    if problem:
        raise InvalidRequest(
            f"suites.{name}",
            requirement=f"must be a suite of Great Expectations ({problem})",
            remedy="give what ExpectationSuite.to_json_dict() returns",
        )
    return suite


def _described(configuration: Any) -> str:
    given = {name: value for name, value in configuration.kwargs.items() if name != "batch_id"}
    return f"{configuration.type}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
