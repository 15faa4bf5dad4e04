"""``dp-budget doctor``: whether this machine can make releases, one line a check; it changes nothing that lasts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from dp_operators.budget import Account, LedgerUnavailable, PrivacyLedger
from dp_operators.releasing.connectors import S3, hadoop_version, missing_connector, spark_defaults, spark_home
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.salt import read_salt
from spark_jobs.contract.store.layout import SALT_FILE_VARIABLE, SALT_VARIABLE
from spark_jobs.contract.store.objects import check_store, local_path

OURS = ("spark_jobs", "dp_operators")
"""Names that a package in a DAGs folder would take from ours: that folder comes early on the path of a task."""


class Finding(StrEnum):
    """How a check ended; ``unknown`` is for what was not asked about."""

    GOOD = "ok"
    BAD = "bad"
    UNKNOWN = "not checked"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that a release needs of its machine.

    Attributes:
        name: what was looked at.
        finding: how it is.
        said: what was found, in one line.
        remedy: what to do about it; empty where there is nothing to do.
    """

    name: str
    finding: Finding
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        """The line that is printed."""
        return f"{self.finding:<11} {self.name:<9} {self.message}{f'; {self.remedy}' if self.remedy else ''}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is asked about.

    Attributes:
        ledger: URL of the ledger; None if it is not known.
        account: an account that shall pay; None for any.
        output: folder or URI of the releases; None to leave it out.
        dags: Airflow's DAGs folder; None to leave it out.
        environ: the variables that the checks go by.
    """

    ledger: str | None = None
    account: str | None = None
    output: str | None = None
    dags: Path | None = None
    environ: Mapping[str, str]


def examine(machine: Machine) -> tuple[Check, ...]:
    """All checks, in an order in which they can be put right."""
    ledger, accounts = _ledger(machine)
    return (
        _java(machine),
        _spark(machine),
        _packages(machine),
        *ledger,
        _salt(machine, accounts),
        _output(machine),
        _connector(machine, accounts),
    )


def _good(name: str, message: str) -> Check:
    return Check(name=name, finding=Finding.GOOD, message=message)


def _bad(name: str, message: str, remedy: str) -> Check:
    return Check(name=name, finding=Finding.BAD, message=message, remedy=remedy)


def _left_out(name: str, message: str, remedy: str = "") -> Check:
    return Check(name=name, finding=Finding.UNKNOWN, message=message, remedy=remedy)


def _refusal(name: str, refused: Exception) -> Check:
    """A check that ended with the one line of a refusal, which has its remedy in it."""
    return _bad(name, " ".join(str(refused).split()), "")


def _java(machine: Machine) -> Check:
    from spark_jobs.application.java import java_home, java_version

    try:
        home = java_home(machine.environ)
    except InvalidRequest as refused:
        return _refusal("java", refused)
    return _good("java", f"Java {java_version(home / 'bin' / 'java')} in {home}")


def _spark(machine: Machine) -> Check:
    home = spark_home(machine.environ)
    if home is None or not (home / "jars").is_dir():
        return _bad("spark", f"no Spark in {home}", "install pyspark, or set SPARK_HOME")
    return _good("spark", f"in {home}, with Hadoop {hadoop_version(home) or 'of unknown version'}")


def _packages(machine: Machine) -> Check:
    if machine.dags is None:
        return _left_out("dags", "no DAGs folder is named", "name it with --dags, or set AIRFLOW__CORE__DAGS_FOLDER")
    hiding = [path for name in OURS for path in (machine.dags / name, machine.dags / f"{name}.py") if path.exists()]
    if hiding:
        names = ", ".join(str(path) for path in hiding)
        return _bad("dags", f"{names} hides this package from every task", "remove it from the DAGs folder")
    return _good("dags", f"nothing in {machine.dags} hides this package")


def _ledger(machine: Machine) -> tuple[tuple[Check, ...], tuple[Account, ...]]:
    """What is to be said of the ledger, and the accounts that are asked about."""
    if not machine.ledger:
        return (_bad("ledger", "no ledger is named", "set DP_LEDGER_URL or use --ledger"),), ()
    try:
        with closing(PrivacyLedger(machine.ledger, patience=5.0)) as ledger:
            reason = ledger.frozen()
            accounts = (ledger.account(machine.account),) if machine.account else ledger.accounts()
    except (InvalidRequest, LedgerUnavailable) as failed:
        return (_refusal("ledger", failed),), ()
    state = (
        _bad("ledger", f"{ledger.name} is frozen: {reason}", "dp-budget reconcile, then dp-budget thaw")
        if reason
        else _good("ledger", f"{ledger.name} answers, and its schema is this version's")
    )
    return (state, _accounts(accounts)), accounts


def _accounts(accounts: tuple[Account, ...]) -> Check:
    if not accounts:
        return _bad("account", "there is none", "dp-budget open")
    idle = [account.name for account in accounts if not account.tables]
    if idle:
        return _bad("account", f"{', '.join(idle)} pays for no table", "dp-budget bind")
    unbound = [table for account in accounts for table in account.tables if table not in account.bindings]
    if unbound:
        return _bad("account", f"the columns of {', '.join(unbound)} are not bound", "dp-budget bind")
    homeless = [account.name for account in accounts if not account.outputs]
    if homeless:
        return _bad("account", f"{', '.join(homeless)} has no folder for its releases", "dp-budget bind-outputs")
    return _good("account", "; ".join(f"{account.name} pays for {', '.join(account.tables)}" for account in accounts))


def _salt(machine: Machine, accounts: tuple[Account, ...]) -> Check:
    needing = [account.name for account in accounts if account.unit.column is not None]
    if not needing and not {SALT_VARIABLE, SALT_FILE_VARIABLE} & set(machine.environ):
        return _left_out("salt", "not set, and no account protects the values of a column, which is what needs it")
    try:
        read_salt(machine.environ)
    except InvalidRequest as refused:
        return _refusal("salt", refused)
    return _good("salt", "is there, and long enough")


def _output(machine: Machine) -> Check:
    if machine.output is None:
        return _left_out("output", "no folder of releases is named", "name it with --output")
    try:
        if is_missing_folder(machine.output):
            return _bad("output", f"{machine.output} is not there", "make the folder, for the user that runs releases")
        check_store(machine.output)
    except InvalidRequest as refused:
        return _refusal("output", refused)
    return _good("output", f"{machine.output} can be written, and refuses to create an object twice")


def is_missing_folder(output: str) -> bool:
    """Whether ``output`` is a folder of this machine that is not there: trying it would make it."""
    return urlsplit(output).scheme in ("", "file") and not local_path(output).is_dir()


def _connector(machine: Machine, accounts: tuple[Account, ...]) -> Check:
    home = spark_home(machine.environ)
    if home is None:
        return _left_out("s3", "there is no Spark to look into")
    missing = missing_connector(settings=spark_defaults(home, machine.environ), home=home)
    if not missing:
        return _good("s3", "Spark has a connector for tables in S3")
    if not any(urlsplit(table).scheme in S3 for account in accounts for table in account.tables):
        return _left_out("s3", f"{missing}, and no account's table is in S3, which is what needs it")
    version = hadoop_version(home) or "VERSION"
    return _bad("s3", missing, f"put org.apache.hadoop:hadoop-aws:{version} into spark.jars.packages")
