"""The provider's metadata for Airflow. Every Airflow process reads it, so it imports nothing."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Differentially private diagnostics"

OPERATORS = ["dp_operators.operators.release", "dp_operators.operators.approval"]


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-dp-diagnostics",
        "name": INTEGRATION,
        "description": "Releases differentially private regression diagnostics from data-lake tables, within a budget.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["privacy"]}],
        "operators": [{"integration-name": INTEGRATION, "python-modules": OPERATORS}],
        "sensors": [{"integration-name": INTEGRATION, "python-modules": ["dp_operators.sensors.budget"]}],
        "triggers": [{"integration-name": INTEGRATION, "python-modules": ["dp_operators.triggers.budget"]}],
        "notifications": ["dp_operators.notifications.budget.PrivacyBudgetNotifier"],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": ["dp_operators.hooks.ledger"]}],
        "connection-types": [
            {
                "connection-type": "privacy_ledger",
                "hook-class-name": "dp_operators.hooks.ledger.PrivacyLedgerHook",
                "hook-name": "Privacy ledger",
                "conn-fields": {
                    "path": {
                        "label": "SQLite file",
                        "description": "Full path of a SQLite ledger on this machine; instead of a host.",
                        "schema": {"type": ["string", "null"]},
                    },
                    "url": {
                        "label": "Database URL",
                        "description": "SQLAlchemy URL of the ledger; instead of a host or a file.",
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                    "deployment": {
                        "label": "Deployment",
                        "description": "Name of this Airflow deployment in release keys, if several share a ledger.",
                        "schema": {"type": ["string", "null"]},
                    },
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["extra"],
                    "relabeling": {"schema": "Database"},
                    "placeholders": {"host": "PostgreSQL host", "port": "5432", "schema": "privacy_ledger"},
                },
            }
        ],
    }
