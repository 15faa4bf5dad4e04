"""What docker/kubernetes deploys, on a real server: roles, migration, TLS, backup and restore."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dp_operators.budget import LedgerFrozen, LedgerUnavailable, NotAllowed, PrivacyLedger
from dp_operators.releasing import reconcile
from tests.budget.test_grants import ALL_CALLS, FORGERIES, MAY
from tests.support.accounts import open_bound
from tests.support.live_airflow import _free_port
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.release_lab import TABLE, Lab
from tests.support.repository import ROOT
from tests.support.tls_front import tls_front

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.verify]
KUBERNETES = ROOT / "docker" / "kubernetes"
# who may reserve comes after who may not: reserving again what is reserved only reads
PARTS = {"ledger_view": "view", "ledger_charge": "charge", "ledger_administer": "administer"}


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A server for the ledger.

    Attributes:
        admin: URL of its administrator.
        port: where it speaks TLS; behind it, ``plain``, where it does not, for its build's own clients.
        authority: folder of the certificate's authority, and of another.
    """

    server: PostgresServer
    admin: str
    port: int
    plain: int
    authority: Path

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, self.admin)

    def plain_url(self, role: str) -> str:
        """The URL for a client whose build has no TLS."""
        return self.url(role).partition("?")[0].replace(f":{self.port}/", f":{self.plain}/")

    def url(self, role: str, *, mode: str = "verify-full", authority: str = "ca") -> str:
        """The URL that the secret of a role holds, with what TLS needs."""
        password = f"{role.removeprefix('ledger_')}%27s%20%22password%22"
        rest = f"sslmode={mode}&sslrootcert={self.authority}/{authority}.crt"
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/privacy_ledger?{rest}"


def manifests() -> dict[str, Any]:
    documents = yaml.safe_load_all((KUBERNETES / "ledger.yaml").read_text())
    return {document["kind"]: document["spec"] for document in documents}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """A server with the roles of roles.sql that wants passwords."""
    folder = tmp_path_factory.mktemp("authority")
    certify(folder)
    with running_postgres() as postgres:
        postgres.ask_for_passwords()
        port = _free_port()
        postgres.listen(port)
        given = [f'--set={role}={role}\'s "password"' for role in ("owner", "charge", "view", "administer")]
        admin = f"{postgres.url()}&port={port}"
        psql(postgres, admin, *given, f"--file={KUBERNETES / 'roles.sql'}")
        psql(postgres, admin, f"--file={KUBERNETES / 'database.sql'}")
        with tls_front(port, certificate=folder / "server.crt", key=folder / "server.key") as encrypted:
            yield Deployed(server=postgres, admin=admin, port=encrypted, plain=port, authority=folder)


def certify(folder: Path) -> None:
    """An authority, a certificate of it for 127.0.0.1, and another authority."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())

    def certificate(name: str, its: Any, issuer: str, signer: Any, extension: x509.ExtensionType) -> bytes:
        named = {title: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, title)]) for title in (name, issuer)}
        made = x509.CertificateBuilder(issuer_name=named[issuer], subject_name=named[name], public_key=its.public_key())
        made = made.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority = x509.BasicConstraints(ca=True, path_length=None)
    for name in ("ca", "other"):
        its = ec.generate_private_key(ec.SECP256R1())
        (folder / f"{name}.crt").write_bytes(certificate(name, its, name, its, authority))
        if name == "ca":
            address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
            (folder / "server.crt").write_bytes(certificate("server", key, "ca", its, address))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.key").write_bytes(key.private_bytes(*private))
    (folder / "server.key").chmod(0o600)


@pytest.fixture(scope="module")
def urls(server: Deployed) -> dict[str, str]:
    """The URL of each role, once the migration's own command has run twice."""
    found = {role: server.url(role) for role in ("ledger_owner", *PARTS)}
    [container] = manifests()["Job"]["template"]["spec"]["containers"]
    assert container["command"] == ["/opt/airflow/setup"]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(ROOT / "docker" / "airflow" / "setup"), *container["args"]],
            env={**os.environ, "DP_LEDGER_URL": found["ledger_owner"], "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def owner(urls: dict[str, str]) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(urls["ledger_owner"])
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    yield ledger
    ledger.close()


@pytest.mark.parametrize("role", PARTS)
def test_role_does_its_part_and_nothing_else(role: str, urls: dict[str, str], owner: PrivacyLedger) -> None:
    mine, part = PrivacyLedger(urls[role]), PARTS[role]
    for name, call in ALL_CALLS.items():
        charge = owner.reserve("visits", release=f"{role} {name}", epsilon="0.01", blocks="2026-11-21").id
        if name == "thaw":
            owner.freeze(reason="it was restored")
        if name in MAY[part]:
            call(mine, charge)
        else:
            with pytest.raises(NotAllowed):
                call(mine, charge)
        owner.thaw(actor="owner", reason="tests")
    mine.close()
    with psycopg.connect(urls[role], autocommit=True) as connection:
        for forgery in (*FORGERIES, "CREATE TABLE mine (a int)", "CREATE ROLE mine", "CREATE DATABASE mine"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forgery)
    assert owner.verification().findings == ()


def test_owner_of_the_tables_is_nobody_on_the_server(server: Deployed, urls: dict[str, str]) -> None:
    server.execute("CREATE ROLE stranger LOGIN PASSWORD 'stranger''s \"password\"'")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(urls["ledger_view"].replace("ledger_view:view", "stranger:stranger"))
    rights = "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls FROM pg_roles WHERE rolname = 'ledger_owner'"
    assert server.execute(rights) == [(False, False, False, False)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "disable"}, "no encryption"),
        ({"authority": "other"}, "certificate verify failed"),
        ({"authority": "none"}, "none.crt"),
    ],
)
def test_ledger_is_reached_over_tls_alone(
    server: Deployed, urls: dict[str, str], changes: dict[str, str], said: str
) -> None:
    with pytest.raises(LedgerUnavailable, match=said) as refused:
        PrivacyLedger(server.url("ledger_view", **changes), patience=1).accounts()
    assert "password" not in str(refused.value)


def test_certificate_of_another_server_is_refused(server: Deployed, urls: dict[str, str]) -> None:
    with pytest.raises(LedgerUnavailable, match="does not match host name"):
        PrivacyLedger(urls["ledger_view"].replace("@127.0.0.1", "@localhost"), patience=1).accounts()


def test_restored_backup_is_behind_its_store_and_is_made_whole(
    server: Deployed, urls: dict[str, str], owner: PrivacyLedger, lab: Lab
) -> None:
    open_bound(owner, "people", table=TABLE, output=lab.output, epsilon="10")
    lab.url = urls["ledger_charge"]
    lab.release(key="before the backup")
    backup = dump(server.server, server.plain_url("ledger_owner"), lab.folder)
    lab.release(key="after the backup")
    before = {charge.id for charge in owner.history("people")}

    owner.close()
    server.execute("ALTER DATABASE privacy_ledger RENAME TO privacy_ledger_before")
    psql(server.server, server.admin, f"--file={KUBERNETES / 'database.sql'}")
    program(server.server, "pg_restore", "--exit-on-error", f"--dbname={server.plain_url('ledger_owner')}", str(backup))

    # the roles have their parts again, and the ledger has forgotten a release: the next one notices
    restored = PrivacyLedger(urls["ledger_administer"])
    assert restored.remaining("people").epsilon == 9
    assert restored.verification().findings == ()
    with pytest.raises(LedgerFrozen, match="restored from a backup"):
        lab.release(key="next")
    # until every folder of releases is replayed
    found = reconcile(lab.output, PrivacyLedger(lab.url), actor="dpo")
    assert (len(found.restored), found.findings) == (1, ())
    restored.thaw(actor="dpo", reason="reconciled")
    assert {charge.id for charge in restored.history("people")} == before
    assert restored.remaining("people").epsilon == 8
    lab.release(key="next")
    assert restored.verification().findings == ()
    restored.close()


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("mode", "authority", "opens"),
    [("verify-full", "ca", True), ("verify-full", "other", False), ("disable", "ca", False)],
)
def test_fields_of_the_connections_form_speak_tls(
    server: Deployed, owner: PrivacyLedger, mode: str, authority: str, *, opens: bool
) -> None:
    from airflow.sdk import Connection

    from dp_operators.hooks.ledger import ledger_url

    extra = json.dumps({"sslmode": mode, "sslrootcert": f"{server.authority}/{authority}.crt", "sslcert": ""})
    filled_in = {"host": "127.0.0.1", "port": server.port, "schema": "privacy_ledger", "login": "ledger_view"}
    url = ledger_url(
        Connection(conn_id="l", conn_type="privacy_ledger", **filled_in, password='view\'s "password"', extra=extra)
    )
    with closing(PrivacyLedger(url, patience=1.0)) as ledger:
        if opens:
            assert "visits" in {account.name for account in ledger.accounts()}
        else:
            with pytest.raises(LedgerUnavailable):
                ledger.accounts()


def dump(postgres: PostgresServer, url: str, folder: Path) -> Path:
    """Run the script of the backup, with its volume in ``folder``."""
    [container] = manifests()["CronJob"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    [script] = container["args"]
    env = {**os.environ, "PATH": f"{postgres.programs}:{os.environ['PATH']}", "DP_LEDGER_URL": url}
    subprocess.run([*container["command"], script.replace("/backups", str(folder))], env=env, check=True)
    [made] = folder.glob("*.dump")
    assert made.stat().st_mode & 0o077 == 0
    return made


def psql(postgres: PostgresServer, *arguments: str) -> None:
    program(postgres, "psql", *arguments)


def program(postgres: PostgresServer, name: str, *arguments: str) -> None:
    done = subprocess.run([f"{postgres.programs}/{name}", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_helm_values_give_each_part_of_airflow_its_login() -> None:
    values = yaml.safe_load((KUBERNETES / "values.yaml").read_text())
    named = {
        part: {variable["name"]: variable["valueFrom"]["secretKeyRef"]["name"] for variable in values[part]["env"]}
        for part in ("workers", "apiServer", "triggerer")
    }
    connection = "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT"
    view = {connection: "privacy-ledger-view"}
    assert named["workers"] == {connection: "privacy-ledger-charge", "DP_DIAGNOSTICS_SALT": "privacy-diagnostics-salt"}
    assert (named["apiServer"], named["triggerer"]) == (view, view)
    assert set(values["config"]["privacy_diagnostics"]) <= set(options())
    # every secret and map that is named is one that the page says how to make
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    text = "".join((KUBERNETES / name).read_text() for name in ("values.yaml", "ledger.yaml"))
    secrets = set(re.findall(r"secretKeyRef: {name: ([a-z-]+)", text)) | set(re.findall(r"SecretName: (\S+)\b", text))
    assert {name for name in secrets if f"secret generic {name} " not in page} == set()
    assert "configmap privacy-ledger-ca " in page
    images = set(re.findall(r"registry\.example\.org/([a-z-]+)", text))
    assert images == {"dp-diagnostics-airflow"}


def options() -> dict[str, Any]:
    from dp_operators.get_provider_info import get_provider_info

    return dict(get_provider_info()["config"]["privacy_diagnostics"]["options"])


@pytest.mark.airflow
def test_local_settings_of_the_helm_values_are_a_policy() -> None:
    values = yaml.safe_load((KUBERNETES / "values.yaml").read_text())
    settings: dict[str, Any] = {}
    exec(values["airflowLocalSettings"], settings)  # noqa: S102: a file of this repository
    assert callable(settings["dag_policy"])
