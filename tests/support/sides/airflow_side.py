"""Run in an environment that holds the Airflow side alone: imports all of it, parses DAGs, and shows the pages."""

import importlib
import importlib.util
import json
import pkgutil
import sys
from contextlib import redirect_stdout
from types import SimpleNamespace
from urllib.parse import urlencode

OTHER_PROVIDERS = {"dp_operators.lineage.openlineage"}
"""Modules that Airflow or the user imports only where another provider is installed."""
MANAGER = SimpleNamespace(
    is_authorized_connection=lambda **_: True,
    is_authorized_custom_view=lambda **_: True,
    is_authorized_dag=lambda **_: True,
)


def import_all():
    import dp_operators

    names = [
        module.name
        for module in pkgutil.walk_packages(dp_operators.__path__, "dp_operators.")
        if ".migrations." not in module.name
    ]
    for name in names:
        if name not in OTHER_PROVIDERS:
            importlib.import_module(name)
    return len(names)


def parse(folder):
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=folder)
    assert bag.import_errors == {}, bag.import_errors
    return sorted(bag.dags)


def show(account, key, request):
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    from dp_operators.plugins import access, runs
    from dp_operators.plugins.app import make_app

    initdb()
    access.get_auth_manager = runs.get_auth_manager = lambda: MANAGER
    app = make_app()
    app.dependency_overrides[get_user] = lambda: SimpleNamespace()
    client = TestClient(app, raise_server_exceptions=False)
    ledger, name = "/privacy_ledger_default", urlencode({"name": account})
    of_release = urlencode({"account": account, "key": key})
    paths = ["/", f"{ledger}/", f"{ledger}/account?{name}", f"{ledger}/charges.csv?{name}", f"{ledger}/cost"]
    paths += [f"{ledger}/release?{of_release}", f"{ledger}/file?{of_release}&name=report.html"]
    paths += [f"/api/v1{ledger}/accounts", f"/api/v1{ledger}/release?{of_release}"]
    shown = {path.partition("?")[0]: (client.get(path).status_code, client.get(path).text) for path in paths}
    cost = client.post(f"{ledger}/cost", data={"request": request})
    widths = client.post(f"{ledger}/cost", data={"request": request, "rows": "1000", "positive_rate": "0.5"})
    return {**shown, "cost": (cost.status_code, cost.text), "widths": (widths.status_code, widths.text)}


if __name__ == "__main__":
    account, key, request, dags = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        facts = {"modules": import_all(), "dags": parse(dags), "pages": show(account, key, request)}
        facts["absent"] = [
            name
            for name in ("pyspark", "numpy", "scipy", "pandas", "matplotlib", "opendp", "great_expectations")
            if importlib.util.find_spec(name) is None
        ]
    print(json.dumps(facts))
