"""The provider's metadata for Airflow. Every Airflow process reads it, so it imports nothing."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Differentially private diagnostics"

OPERATORS = [
    "dp_operators.operators.release",
    "dp_operators.operators.count_stream",
    "dp_operators.operators.approval",
    "dp_operators.operators.expectations",
    "dp_operators.operators.federation_server",
    "dp_operators.operators.verification",
    "dp_operators.operators.diagnostics",
]
LINKS = ("ReportLink", "AccountLink", "VerifyLink")
OPTIONS = {
    "production": {
        "description": "Whether this deployment releases data of people. The rule `cluster_runner` of the cluster "
        "policy then refuses a local runner.",
        "version_added": "0.2.0",
        "type": "boolean",
        "example": "True",
        "default": "False",
    },
    "deployment": {
        "description": "Name of this Airflow deployment in release keys, if several share a ledger and its connection "
        "has no name of its own. Changing it makes releases of earlier runs new ones, which are paid for again.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "prod-eu",
        "default": None,
    },
    "report_url": {
        "description": "Address of a release's report for the link on the task's page, with {folder}, {uri} or "
        "{account}. Without it, the link leads to the release's page, which serves the report from the store.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "https://reports.example.org/{folder}/report.html",
        "default": None,
    },
    "page_permission": {
        "description": "Permission of the auth manager for the pages alone: who may read the resource "
        "`<page_permission>:<connection>` sees that ledger's pages without being able to read its connection.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "Privacy budget",
        "default": None,
    },
    "salt_conn_id": {
        "description": "Connection whose password is the salt that decides which rows of a unit are used, for drivers "
        "on the worker's machine; Airflow's secrets backends may hold it. Without it, the worker's environment names "
        "a file. A driver on a cluster reads a secret that the cluster mounts.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "privacy_salt",
        "default": None,
    },
    "stream_keys_conn_id": {
        "description": "Connection whose password holds the keys of streams, for drivers on the worker's machine: "
        "NAME:HEX, separated by spaces, the newest first.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "privacy_stream_keys",
        "default": None,
    },
    "store_conn_ids": {
        "description": "Connections for the folders of releases, as JSON: Airflow's processes read and write below a "
        "folder through Airflow's object storage and its connection, the longest folder first. Elsewhere, and in "
        "drivers on clusters, the machine's own identity or environment signs in.",
        "version_added": "0.2.0",
        "type": "string",
        "example": '{"s3://releases": "aws_releases", "gs://releases/eu": "google_eu"}',
        "default": None,
    },
    "lineage_namespace": {
        "description": "OpenLineage namespace of catalog tables; other tables have that of their store.",
        "version_added": "0.2.0",
        "type": "string",
        "example": "hive://metastore.example.org:9083",
        "default": "spark_catalog",
    },
}
"""The options of the section ``[privacy_diagnostics]``, which ``dp_operators.configuration`` reads."""


STORE_PROVIDERS = {
    "s3": "apache-airflow-providers-amazon",
    "gcs": "apache-airflow-providers-google",
    "azure": "apache-airflow-providers-microsoft-azure",
}
"""Whose file systems Airflow's object storage uses for a store, by the store's extra."""

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""What libpq's ``sslmode`` may be."""
TLS_FILES = (
    ("sslrootcert", "TLS authority", "the certificates of the authorities that may vouch for the server"),
    ("sslcert", "TLS client certificate", "this client's certificate"),
    ("sslkey", "TLS client key", "the key of this client's certificate"),
)
"""Files that libpq reads: their extras in a connection, their labels, and what they hold."""

SENSORS = ["dp_operators.sensors.budget", "dp_operators.sensors.alarms"]
NOTIFICATIONS = [
    "dp_operators.notifications.budget.PrivacyBudgetNotifier",
    "dp_operators.notifications.alarms.StreamAlarmNotifier",
]
TRIGGERS = ["dp_operators.triggers.application", "dp_operators.triggers.budget"]


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-dp-diagnostics",
        "name": INTEGRATION,
        "description": "Releases differentially private regression diagnostics from data-lake tables, within a budget.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["privacy"]}],
        "operators": [{"integration-name": INTEGRATION, "python-modules": OPERATORS}],
        "sensors": [{"integration-name": INTEGRATION, "python-modules": SENSORS}],
        "triggers": [{"integration-name": INTEGRATION, "python-modules": TRIGGERS}],
        "notifications": NOTIFICATIONS,
        "task-decorators": [
            {"name": "private_release", "class-name": "dp_operators.decorators.private_release.private_release_task"}
        ],
        "extra-links": [f"dp_operators.links.release.{link}" for link in LINKS],
        "config": {
            "privacy_diagnostics": {
                "description": "Releases of differentially private diagnostics, and the ledger that pays for them.",
                "options": OPTIONS,
            }
        },
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
                    "sslmode": {
                        "label": "TLS mode",
                        "description": "For a host: verify-full checks the server's certificate and its name.",
                        "schema": {"type": ["string", "null"], "enum": [None, *SSL_MODES]},
                    },
                    **{
                        name: {
                            "label": label,
                            "description": f"Full path of a PEM file with {what}, for every process of Airflow.",
                            "schema": {"type": ["string", "null"]},
                        }
                        for name, label, what in TLS_FILES
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
