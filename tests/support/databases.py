"""PostgreSQL's JDBC driver from Debian's package of it, and files of connections."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.contract.jdbc import CONNECTIONS_VARIABLE
from tests.support.live_airflow import _free_port
from tests.support.postgres import PostgresServer, running_postgres

INSTALLED = Path("/usr/share/java/postgresql.jar")
PACKAGE = "libpostgresql-jdbc-java"


@pytest.fixture(scope="session")
def jdbc_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver's jar: the installed one, or that of the package, which is unpacked and not installed."""
    if INSTALLED.exists():
        return INSTALLED
    folder = tmp_path_factory.mktemp("jdbc")
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with suppress(subprocess.TimeoutExpired):
            download = ["apt-get", "download", "-qq", PACKAGE]
            subprocess.run(download, cwd=folder, capture_output=True, check=False, timeout=60)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package.name, "."], cwd=folder, check=True)
    jar = folder / INSTALLED.relative_to("/")
    if not jar.exists():
        pytest.skip(f"{PACKAGE} is neither installed nor can it be downloaded")
    return jar


def write_connections(file: Path, **connections: dict[str, Any]) -> dict[str, str]:
    """Write a file of connections; the environment variable that names it."""
    file.write_text(json.dumps(connections))
    return {CONNECTIONS_VARIABLE: str(file)}


@dataclass(frozen=True, kw_only=True)
class Database:
    """A PostgreSQL server that answers on the loopback interface.

    Attributes:
        server: the server.
        port: its port.
        driver: the jar of the JDBC driver.
    """

    server: PostgresServer
    port: int
    driver: Path

    def execute(self, statement: str) -> None:
        """Execute a statement in a transaction of its own."""
        self.server.execute(statement, f"{self.server.url()}&port={self.port}")

    def connection(self, *tables: str, **fields: str) -> dict[str, Any]:
        """What an administrator writes about it."""
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"
        return {"url": url, "user": "postgres", "tables": list(tables), **fields}


@contextmanager
def running_database(driver: Path, *, passwords: bool = False) -> Iterator[Database]:
    """A server of its own, which is gone at the end; it lets everybody in, or asks for ``passwords``."""
    with running_postgres() as server:
        port = _free_port()
        if passwords:
            server.ask_for_passwords()
        server.listen(port)
        yield Database(server=server, port=port, driver=driver)
