"""Airflow takes the provider's description as it stands."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

from dp_operators.get_provider_info import get_provider_info
from dp_operators.hooks.ledger import PrivacyLedgerHook
from spark_jobs.contract.errors import InvalidRequest
from tests.support.repository import ROOT

INFO = get_provider_info()
TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
[CONNECTION] = INFO["connection-types"]


def test_description_is_valid_against_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**INFO, "connection-types": [{"hook-name": "Privacy ledger"}]}, schema)


@pytest.mark.parametrize("part", ["operators", "sensors", "triggers", "hooks"])
def test_modules_exist(part: str) -> None:
    modules = [name for entry in INFO[part] for name in entry["python-modules"]]
    assert modules
    for name in modules:
        assert importlib.import_module(name).__doc__


def test_every_module_of_an_operator_sensor_or_hook_is_listed() -> None:
    root = Path(importlib.import_module("dp_operators").__file__ or "").parent
    listed = {
        name for part in ("operators", "sensors", "hooks") for entry in INFO[part] for name in entry["python-modules"]
    }
    operators = "(BaseOperator)", "(ApplicationOperator)", "(TextTemplates)"
    for part, bases in (
        ("operators", operators),
        ("sensors", ("(BaseSensorOperator)", "(TextTemplates, BaseSensorOperator)")),
        ("hooks", ("(BaseHook)",)),
    ):
        files = {file.stem for file in (root / part).glob("*.py") if any(base in file.read_text() for base in bases)}
        assert {f"dp_operators.{part}.{name}" for name in files - {"application", "rendering"}} <= listed
        assert files


def test_airflow_knows_provider_and_connection_type() -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager = ProvidersManager()
    known = manager.providers["airflow-provider-dp-diagnostics"].data
    assert {**known, **INFO} == known
    hook: Any = ProvidersManagerTaskRuntime().hooks["privacy_ledger"]
    assert hook.hook_name == PrivacyLedgerHook.hook_name == CONNECTION["hook-name"]
    assert hook.connection_id_attribute_name == PrivacyLedgerHook.conn_name_attr
    widgets = manager.connection_form_widgets
    assert {f"extra__privacy_ledger__{name}" for name in ("path", "url", "deployment", *TLS)} <= set(widgets)
    assert widgets["extra__privacy_ledger__url"].is_sensitive
    assert manager.field_behaviours["privacy_ledger"]["relabeling"] == {"schema": "Database"}


def test_links_and_decorators_exist_and_airflow_knows_them() -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk import task

    from dp_operators.operators.release import ReleaseDiagnosticsOperator

    links = {
        f"{type(link).__module__}.{type(link).__name__}" for link in ReleaseDiagnosticsOperator.operator_extra_links
    }
    assert links == set(INFO["extra-links"])
    assert links <= set(ProvidersManager().extra_links_class_names)
    assert task.private_release.__doc__.startswith("Turn a function that returns a request")


def test_configuration_is_documented_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.configuration import conf

    from dp_operators import configuration

    [section] = INFO["config"]
    options = INFO["config"][section]["options"]
    assert section == configuration.SECTION
    page = (ROOT / "docs" / "reference" / "airflow.md").read_text()
    for name, option in options.items():
        assert f"| `{name}` |" in page
        assert callable(getattr(configuration, name))
        assert conf.get(section, name, fallback=None) == option["default"]
    assert not configuration.production()
    monkeypatch.setenv("AIRFLOW__PRIVACY_DIAGNOSTICS__PRODUCTION", "maybe")
    with pytest.raises(InvalidRequest, match="production: got 'maybe'; must be True or False"):
        configuration.production()


def test_connection_class_is_the_hook() -> None:
    module, _, name = CONNECTION["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is PrivacyLedgerHook
    assert CONNECTION["connection-type"] == PrivacyLedgerHook.conn_type
