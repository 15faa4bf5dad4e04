"""``dp-budget doctor``: checks whether this machine can make releases; it changes nothing permanently."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from dp_operators.budget import Account, LedgerUnavailable, PrivacyLedger
from dp_operators.releasing.connectors import S3, hadoop_version, missing_connector, spark_defaults, spark_home
from spark_jobs.contract.embedded_engine import AUTO, EMBEDDED
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.salt import read_salt
from spark_jobs.contract.store.layout import SALT_FILE_VARIABLE, SALT_VARIABLE
from spark_jobs.contract.store.objects import check_store, check_writable, local_path, require_store
from spark_jobs.embedded.choice import MASTER_VARIABLE
from spark_jobs.embedded.installed import PACKAGE, RELEASE, require_engine, require_one_pyspark

OURS = ("spark_jobs", "dp_operators")
"""Our packages: one of the same name in a DAGs folder would hide it, because that folder is early on a task's path."""


class Finding(StrEnum):
    """The result of a check; ``UNKNOWN`` if it was not needed or not requested."""

    GOOD = "ok"
    BAD = "bad"
    UNKNOWN = "not checked"


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of checking one thing that a release needs of its machine.

    Attributes:
        name: what was checked.
        finding: the result.
        message: a description of the result, in one line.
        remedy: what to do about it; empty if there is nothing to do.
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
    """The machine and the deployment that are checked.

    Attributes:
        ledger: URL of the ledger; None if it is not known.
        account: the account that is to pay; None for all accounts.
        output: folder or URI of the releases; None to skip the check.
        dags: Airflow's DAGs folder; None to skip the check.
        environ: the environment variables that the checks read.
    """

    ledger: str | None = None
    account: str | None = None
    output: str | None = None
    dags: Path | None = None
    environ: Mapping[str, str]


def examine(machine: Machine) -> tuple[Check, ...]:
    """All checks, in the order in which failures should be fixed."""
    ledger, accounts = _ledger(machine)
    embedded = _embedded()
    named = machine.environ.get(MASTER_VARIABLE, AUTO)
    needed = embedded.finding is not Finding.GOOD or named not in (AUTO, EMBEDDED)
    return (
        *(check if needed else _spare(check) for check in (_java(machine), _spark(machine))),
        _packages(machine),
        *ledger,
        _salt(machine, accounts),
        _output(machine),
        _connector(machine, accounts),
        embedded,
    )


def _good(name: str, message: str) -> Check:
    return Check(name=name, finding=Finding.GOOD, message=message)


def _bad(name: str, message: str, remedy: str) -> Check:
    return Check(name=name, finding=Finding.BAD, message=message, remedy=remedy)


def _skipped(name: str, message: str, remedy: str = "") -> Check:
    return Check(name=name, finding=Finding.UNKNOWN, message=message, remedy=remedy)


def _failed_by(name: str, error: Exception) -> Check:
    """A failed check with the message of an error, which includes the remedy."""
    return _bad(name, " ".join(str(error).split()), "")


def _java(machine: Machine) -> Check:
    from spark_jobs.application.java import java_home, java_version

    try:
        home = java_home(machine.environ)
    except InvalidRequest as error:
        return _failed_by("java", error)
    return _good("java", f"Java {java_version(home / 'bin' / 'java')} in {home}")


def _spark(machine: Machine) -> Check:
    home = spark_home(machine.environ)
    if home is None or not (home / "jars").is_dir():
        return _bad("spark", f"no Spark in {home}", "install dp-diagnostics[spark], or set SPARK_HOME")
    return _good("spark", f"in {home}, with Hadoop {hadoop_version(home) or 'of unknown version'}")


def _spare(check: Check) -> Check:
    """A check of what only Spark needs, where there is another engine."""
    if check.finding is not Finding.BAD:
        return check
    message = f"{check.message}{f'; {check.remedy}' if check.remedy else ''}"
    return _skipped(check.name, message, "only what the embedded engine does not take needs it")


def _embedded() -> Check:
    try:
        require_one_pyspark()
    except InvalidRequest as error:
        return _failed_by("embedded", error)
    try:
        require_engine()
    except InvalidRequest as error:
        return _skipped("embedded", " ".join(str(error).split()))
    return _good("embedded", f"{PACKAGE} {RELEASE}, for the master {EMBEDDED} and where it takes a request")


def _packages(machine: Machine) -> Check:
    if machine.dags is None:
        return _skipped("dags", "no DAGs folder is named", "name it with --dags, or set AIRFLOW__CORE__DAGS_FOLDER")
    hiding = [path for name in OURS for path in (machine.dags / name, machine.dags / f"{name}.py") if path.exists()]
    if hiding:
        names = ", ".join(str(path) for path in hiding)
        return _bad("dags", f"{names} hides this package from every task", "remove it from the DAGs folder")
    return _good("dags", f"nothing in {machine.dags} hides this package")


def _ledger(machine: Machine) -> tuple[tuple[Check, ...], tuple[Account, ...]]:
    """The checks of the ledger and its accounts, and the accounts themselves."""
    if not machine.ledger:
        return (_bad("ledger", "no ledger is named", "set DP_LEDGER_URL or use --ledger"),), ()
    try:
        with closing(PrivacyLedger(machine.ledger, patience=5.0)) as ledger:
            reason = ledger.frozen()
            accounts = (ledger.account(machine.account),) if machine.account else ledger.accounts()
    except (InvalidRequest, LedgerUnavailable) as failed:
        return (_failed_by("ledger", failed),), ()
    state = (
        _bad(
            "ledger",
            f"{ledger.name} is frozen: {reason}",
            "use the ledger there" if reason.startswith("moved to ") else "dp-budget reconcile, then dp-budget thaw",
        )
        if reason
        else _good("ledger", f"{ledger.name} answers, and its schema is this version's")
    )
    return (state, _accounts(accounts)), accounts


def _accounts(accounts: tuple[Account, ...]) -> Check:
    if not accounts:
        return _bad("account", "the ledger has no account", "dp-budget open")
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
        return _skipped("salt", "not set; only an account whose unit is a column needs it, and there is none")
    try:
        read_salt(machine.environ)
    except InvalidRequest as error:
        return _failed_by("salt", error)
    return _good("salt", "is set and long enough")


def _output(machine: Machine) -> Check:
    if machine.output is None:
        return _skipped("output", "no folder of releases is named", "name it with --output")
    try:
        require_store(machine.output)
        if is_missing_folder(machine.output):
            check_writable(machine.output)
            return _good("output", f"{machine.output} does not exist yet, and the first release makes it")
        check_store(machine.output)
    except InvalidRequest as error:
        return _failed_by("output", error)
    except OSError as error:
        return _bad("output", f"{machine.output} does not answer ({type(error).__name__})", "try again")
    return _good("output", f"{machine.output} is writable, and rejects creating an object twice")


def is_missing_folder(output: str) -> bool:
    """Whether ``output`` is a local folder that does not exist, which writing to it would create."""
    return urlsplit(output).scheme in ("", "file") and not local_path(output).is_dir()


def _connector(machine: Machine, accounts: tuple[Account, ...]) -> Check:
    home = spark_home(machine.environ)
    if home is None:
        return _skipped("s3", "there is no Spark to check")
    missing = missing_connector(settings=spark_defaults(home, machine.environ), home=home)
    if not missing:
        return _good("s3", "Spark has a connector for tables in S3")
    if not any(urlsplit(table).scheme in S3 for account in accounts for table in account.tables):
        return _skipped("s3", f"{missing}; only tables in S3 need it, and no account has one")
    version = hadoop_version(home) or "VERSION"
    return _bad("s3", missing, f"put org.apache.hadoop:hadoop-aws:{version} into spark.jars.packages")
