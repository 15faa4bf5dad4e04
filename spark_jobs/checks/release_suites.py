"""Checks the files of a published release with suites of Great Expectations, and writes the data docs.

A release is noisy and published, so checking it is post-processing and costs nothing. The files are those of the
manifest, compared with their hashes: tables in Parquet or CSV, and ``release.json``, whose row has the figures of all
results by their names (``contract.figure_names``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import figure_columns
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import MANIFEST_NAME
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.values import did_you_mean

READERS = (".parquet", ".csv")
_LABELS = ("figure", "group", "threshold")
_OF_COLUMNS = ("column", "column_A", "column_B", "column_list")
"""The arguments by which an expectation names columns that it reads."""
_OF_SCHEMA = "expect_column_to_exist"
_ROWS_SHOWN, _COLUMNS_SHOWN = 3, 20


def check_suites(release: str, suites: Mapping[str, Any], *, data_docs: str | None = None) -> list[str]:
    """The expectations that a release does not meet, each in a line.

    Args:
        release: URI of the release's folder.
        suites: for each file of the release, a suite in the JSON form of ``ExpectationSuite.to_json_dict()``.
        data_docs: folder for the pages that the library makes of the suites and their results; None for no pages.

    Raises:
        InvalidRequest: there is no such release or file, a file differs from the manifest, a suite is not valid or
            names a column that its file lacks, or Great Expectations is not installed.
    """
    gx = _great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    actions = []
    if data_docs is not None:
        actions.append(gx.checkpoint.UpdateDataDocsAction(name="data_docs", site_names=[_add_site(context, data_docs)]))
    unmet = []
    with TemporaryDirectory() as folder:
        files = _files(release, suites, Path(folder))
        source = context.data_sources.add_pandas("release")
        written = {name: _suite(gx, name, suites[name], columns) for name, (_, columns, _) in files.items()}
        for name, (path, _, labels) in files.items():
            add = source.add_csv_asset if path.suffix == ".csv" else source.add_parquet_asset
            batch = add(name, path).add_batch_definition("whole")
            definition = gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add(written[name]))
            checkpoint = gx.Checkpoint(
                name=name,
                validation_definitions=[context.validation_definitions.add(definition)],
                actions=actions,
                result_format={"result_format": "SUMMARY", "unexpected_index_column_names": labels},
            )
            [result] = context.checkpoints.add(checkpoint).run().run_results.values()
            unmet += [f"{name}: {line}" for outcome in result.results if (line := _unmet(name, outcome))]
    return unmet


def _great_expectations() -> Any:
    """The library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    try:
        import great_expectations
    except ImportError:
        raise InvalidRequest(
            "suites", None, "need Great Expectations", "install dp-diagnostics[expectations]"
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


class _File(NamedTuple):
    """A verified copy of a file of the release, as the library reads it.

    Attributes:
        path: where it is.
        columns: its columns.
        labels: those that say which row it is: of a table of aggregates, its dimensions; else the group.
    """

    path: Path
    columns: list[str]
    labels: list[str]


def _files(release: str, suites: Mapping[str, Any], folder: Path) -> dict[str, _File]:
    """What each suite is for."""
    store = open_store(release)
    content = store.read(f"{release.rstrip('/')}/{MANIFEST_NAME}")
    if content is None:
        raise InvalidRequest("release", release, "must be the folder of a release", "correct the URI")
    manifest = Release.from_json(content)
    files = {}
    for number, name in enumerate(suites):
        path = folder / f"{number}{Path(name).suffix}"
        if name == MANIFEST_NAME:
            path = path.with_suffix(".parquet")
            pd.DataFrame([figure_columns(manifest.results)]).to_parquet(path)
        else:
            path.write_bytes(_verified(store, release, manifest, name))
        table = pd.read_csv(path, nrows=0) if path.suffix == ".csv" else pd.read_parquet(path)
        columns = list(map(str, table.columns))
        labels = [one for one in columns if name != MANIFEST_NAME and (one in _LABELS or one.startswith("by_"))]
        files[name] = _File(path, columns, labels)
    return files


def _verified(store: ObjectStore, release: str, manifest: Release, name: str) -> bytes:
    entry = next((file for file in manifest.files if file.name == name and name.endswith(READERS)), None)
    if entry is None:
        tables = [file.name for file in manifest.files if file.name.endswith(READERS)]
        raise InvalidRequest(
            "suites", name, f"must be one of {', '.join((*tables, MANIFEST_NAME))}", "name a table of the release"
        )
    content = store.read(f"{release.rstrip('/')}/{name}")
    if content is None or not entry.matches(content):
        raise InvalidRequest("release", release, f"must hold {name} as its manifest says", "verify the release")
    return content


def _suite(gx: Any, name: str, fields: Any, columns: list[str]) -> Any:
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
            f"suites.{name}", None, f"must be a suite of Great Expectations ({problem})",
            "give what ExpectationSuite.to_json_dict() returns",
        )  # fmt: skip
    for expectation in listed:
        _require_columns(name, expectation, columns)
    return suite


def _require_columns(name: str, expectation: Mapping[str, Any], columns: list[str]) -> None:
    """Refuse an expectation of a column that the file lacks: whether it is met cannot be said."""
    arguments = expectation.get("kwargs") or {}
    for option in _OF_COLUMNS if expectation["type"] != _OF_SCHEMA else ():
        given = arguments.get(option, ())
        for column in [given] if isinstance(given, str) else given:
            if column not in columns:
                listed = ", ".join((*columns[:_COLUMNS_SHOWN], *(["..."] if len(columns) > _COLUMNS_SHOWN else [])))
                raise InvalidRequest(
                    f"suites.{name}.{expectation['type']}.{option}", column,
                    f"must be a column of the file, which has {listed}", f"correct it{did_you_mean(column, columns)}",
                )  # fmt: skip


def _unmet(name: str, outcome: Any) -> str:
    """What a line says of an expectation that is not met; empty if it is.

    Raises:
        InvalidRequest: the library could not judge it, as of a condition on rows that it cannot read.
    """
    if outcome.success:
        return ""
    configuration = outcome.expectation_config
    failure = outcome.exception_info or {}
    raised = [one for one in (failure, *failure.values()) if isinstance(one, Mapping) and one.get("raised_exception")]
    if raised:
        message = (str(raised[0].get("exception_message")).splitlines() or [""])[0][:200]
        raise InvalidRequest(
            f"suites.{name}",
            configuration.type,
            f"must be an expectation that Great Expectations can evaluate ({message})",
            "correct the expectation's arguments",
        )
    given = {name: value for name, value in configuration.kwargs.items() if name != "batch_id"}
    if isinstance(given.get("row_condition"), Mapping):  # as the library keeps a text
        given["row_condition"] = given["row_condition"].get("pass_through_filter", given["row_condition"])
    described = f"{configuration.type}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    values = _values_text(outcome.result)
    return f"{described}: {values}" if values else described


def _values_text(result: Mapping[str, Any]) -> str:
    """The values that an expectation is not met for, with what says where they are."""
    if "observed_value" in result:
        return f"the value is {_text(result['observed_value'])}"
    rows, number = result.get("partial_unexpected_index_list"), result.get("unexpected_count")
    values = result.get("partial_unexpected_list")
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
        shown = [", ".join(f"{name} {_text(value)}" for name, value in row.items()) for row in rows[:_ROWS_SHOWN]]
    else:
        shown = [_text(value) for value in values[:_ROWS_SHOWN]] if isinstance(values, list) else []
    if not shown:
        return ""
    more = (number or len(shown)) - len(shown)
    return f"the value is {'; '.join(shown)}" + (f"; and {more:,} more rows" if more > 0 else "")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    item = value.item() if hasattr(value, "item") else value
    return "null" if item is None or item != item else f"{item:.6g}" if isinstance(item, float) else str(item)
