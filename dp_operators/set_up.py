"""``dp-budget init``: from a file to a table, a ledger with an account, a request and a DAG, in one folder.

Only the first line of a csv file is read, or only the names and types of a Parquet file's columns, so that the rows
suggest no answer. Everything is checked before anything is written, no file is ever replaced, and the account is opened
last: if a step fails, the files written so far are removed, and the same answers can be given again.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from dp_operators.budget import PrivacyLedger
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.first_line import fault_of, header_names, text_of
from spark_jobs.contract.footers import DamagedFile, common_types, footer_of, require_readable
from spark_jobs.contract.privacy import PrivacyUnit, plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_FILE_VARIABLE
from spark_jobs.contract.store.table_files import TableFiles

_VERSION = "v1"
_PARQUET = ".parquet"
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TAKEN = ("dags", "releases", "salt", "airflow", "dp_operators", "spark_jobs")
"""Names of other things in the folder, and of packages that a DAG file of the same name could hide."""
_DAG = '''"""A private release of the table {account}. Each run is a release of its own, and costs epsilon {epsilon}."""

from airflow.sdk import DAG

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor

with DAG("{account}", schedule=None):
    budget = PrivacyBudgetSensor(
        task_id="budget", account="{account}", epsilon="{epsilon}", on_exhausted="fail", release_task_id="release"
    )
    release = ReleaseDiagnosticsOperator(task_id="release", request={request!r})
    budget >> release
'''


def header_of(file: Path, form: FileForm) -> tuple[str, ...]:
    """The names of a csv file's columns, from its first line.

    Raises:
        InvalidRequest: the file cannot be read, or its first line is no header in this form.
    """
    if file.suffix.lower() != ".csv":
        raise InvalidRequest(
            "file", str(file), "must be a .csv or .parquet file", "for tables of other formats use `dp-budget open`"
        )
    with _refusing(file):
        line = TableFiles(folder=str(file.parent), names=(file.name,)).first_line(file.name)
    fault = fault_of(line, form)
    if fault is not None:
        raise InvalidRequest("file", str(file), f"the first line {fault.what}", fault.remedy)
    return tuple(header_names(text_of(line or b"", form.encoding) or "", form))


def types_of(file: Path) -> dict[str, str]:
    """The types of a Parquet file's columns, by name; empty for a file of another format.

    Raises:
        InvalidRequest: the file cannot be read, or has types that no engine can read.
    """
    if file.suffix.lower() != _PARQUET:
        return {}
    with _refusing(file):
        tail = TableFiles(folder=str(file.parent), names=(file.name,)).tail(file.name)
    try:
        footer = footer_of(tail or b"")
    except DamagedFile:
        raise InvalidRequest("file", str(file), "must be a whole Parquet file", "write it again") from None
    require_readable((footer,), field="file", value=str(file))
    return common_types((footer,))


@contextmanager
def _refusing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise InvalidRequest(
            "file", str(file), f"must be a file that can be read: {failed.strerror}",
            "correct the name, or the permission",
        ) from None  # fmt: skip


def column_of(answer: str, header: tuple[str, ...], *, what: str) -> str:
    """The column that an answer means: its name, or its place in the header, from 1.

    Raises:
        InvalidRequest: there is no such column.
    """
    if answer in header:
        return answer
    if answer.isdecimal() and 1 <= int(answer) <= len(header):
        return header[int(answer) - 1]
    raise InvalidRequest(
        what, answer, f"must be a column, by its name or by a number from 1 to {len(header)}",
        "answer with one of the columns that are listed",
    )  # fmt: skip


def columns_of(answer: str, header: tuple[str, ...], *, what: str) -> tuple[str, ...]:
    """The columns that an answer means: one name, or places separated by commas; none for an empty answer."""
    if answer in header or not answer.strip():
        return (answer,) if answer in header else ()
    return tuple(column_of(place.strip(), header, what=what) for place in answer.split(","))


def account_name(file: Path) -> str:
    """A name for the account, made from the file's name."""
    # casefold writes ß as ss; a letter's marks are left out, and the letter stays
    letters = unicodedata.normalize("NFKD", file.stem.casefold())
    plain_letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[^a-z0-9]+", "_", plain_letters).strip("_")[:100] or "table"


def require_name(account: str) -> str:
    """Return ``account`` if it may also name a folder, a request and a DAG.

    Raises:
        InvalidRequest: the name has characters that are not allowed, is too long, or is reserved.
    """
    if not _NAME.fullmatch(account) or account.lower() in _TAKEN:
        raise InvalidRequest(
            "account", account, f"must be 1 to 100 letters, digits, - and _ of ASCII, and none of {', '.join(_TAKEN)}",
            "choose another name; `dp-budget open` takes any",
        )  # fmt: skip
    return account


def require_in_cap(epsilon: Decimal, cap: Decimal) -> Decimal:
    """Return ``epsilon`` if it is at most the cap.

    Raises:
        InvalidRequest: it is above the cap.
    """
    if epsilon > cap:
        raise InvalidRequest("epsilon", plain(epsilon), f"must be at most the cap, {plain(cap)}", "lower it")
    return epsilon


@dataclass(frozen=True, kw_only=True)
class SetUp:
    """A table, ledger, account, request and DAG to set up in one folder, checked as a whole.

    Attributes:
        folder: an absolute path; everything is written below it.
        file: the csv or Parquet file, which is copied.
        account: name of the account and of the table's folder.
        types: the type of each column, in the header's order.
        cap: what all releases of the table may cost together.
        unit: whom the account protects.
        diagnosis: the fields of the request that say what is released: ``diagnostics``, ``label`` and ``model``.
        epsilon: what the release costs.
        ledger: URL of a ledger; None for a new one in the folder.
        dag: whether to write a DAG.
        form: how the file's values are written.

    Raises:
        InvalidRequest: the request, the columns or the caps are not valid, or a file that would be written exists.
    """

    folder: Path
    file: Path
    account: str
    types: Mapping[str, str]
    cap: Decimal
    unit: PrivacyUnit
    diagnosis: Mapping[str, Any]
    epsilon: Decimal
    ledger: str | None = None
    dag: bool = False
    form: FileForm = field(default_factory=FileForm)

    def __post_init__(self) -> None:
        require_name(self.account)
        require_in_cap(self.epsilon, self.cap)
        ReleaseRequest.parse({**self.request, "table": {**self.request["table"], **self._schema}})
        for path in (self.version, self.request_file, *([self.dag_file] if self.dag else [])):
            if path.exists():
                raise InvalidRequest(
                    "account", self.account, f"must be new, but {path} exists already",
                    "choose another name, or another folder",
                )  # fmt: skip

    @property
    def table(self) -> Path:
        """The table's folder."""
        return self.folder / self.account

    @property
    def version(self) -> Path:
        """The folder of the table's first version."""
        return self.table / _VERSION

    @property
    def releases(self) -> Path:
        """The folder of the releases."""
        return self.folder / "releases" / self.account

    @property
    def request_file(self) -> Path:
        """The path of the request."""
        return self.folder / f"{self.account}.yaml"

    @property
    def dag_file(self) -> Path:
        """The path of the DAG."""
        return self.folder / "dags" / f"{self.account}.py"

    @property
    def settings_file(self) -> Path:
        """The path of a shell file that sets environment variables, for all accounts of the folder."""
        return self.folder / "settings.sh"

    @property
    def salt_file(self) -> Path:
        """The path of the secret that decides which rows of a unit are used, for all accounts of the folder."""
        return self.folder / "salt"

    @property
    def ledger_url(self) -> str:
        """The URL of the ledger."""
        return self.ledger or f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def binding(self) -> TableBinding:
        """The table's columns and versions, as the account fixes them."""
        return TableBinding.parse(
            {"table": str(self.table), **self._schema, "version": {"by": "path_version"}, "public_columns": []}
        )

    @property
    def request(self) -> dict[str, Any]:
        """The fields of the request."""
        of_unit = {"column": self.unit.column, "max_rows": self.unit.max_rows}
        return {
            "account": self.account,
            "table": {"path": str(self.table), "snapshot": {"path_version": _VERSION}},
            **({} if self.unit.column is None else {"unit": of_unit}),
            **self.diagnosis,
            "budget": {"epsilon": plain(self.epsilon)},
            "output": str(self.releases),
        }

    @property
    def _schema(self) -> dict[str, Any]:
        form = self.form.model_dump()
        if self.file.suffix.lower() == _PARQUET:
            return {"format": "parquet", "columns": dict(self.types)}
        return {"format": "csv", "columns": dict(self.types), **({"file_form": form} if form else {})}

    def write(self, *, actor: str) -> tuple[Path, ...]:
        """Copy the file, write the files and open the account; return the paths of the new files.

        Raises:
            InvalidRequest: the ledger has an account of this name with other terms, or has no tables of this version;
                or a file cannot be written. Nothing of the account is left behind.
            LedgerUnavailable: the ledger cannot be reached. Nothing of the account is left behind.
        """
        with ExitStack() as undo:
            try:
                new = self._write_files(undo)
                self._open_account(actor)
            except OSError as failed:
                raise InvalidRequest(
                    "folder", str(self.folder), f"must be writable: {failed.strerror}", "choose another folder"
                ) from None
            undo.pop_all()
        return new

    def _open_account(self, actor: str) -> None:
        ledger = PrivacyLedger(self.ledger_url)
        try:
            if self.ledger is None:
                ledger.migrate()
            ledger.open_account(
                self.account,
                epsilon=self.cap,
                unit=self.unit,
                tables=[self.binding],
                outputs=[str(self.releases)],
                actor=actor,
            )
        finally:
            ledger.close()

    def _write_files(self, undo: ExitStack) -> tuple[Path, ...]:
        """Write the files that are new; ``undo`` removes those of the account, but not those of the folder."""
        import yaml

        for folder in (self.folder, self.folder / "releases", self.folder / "dags"):
            if self.dag or folder.name != "dags":
                folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.releases, self.table, self.version):
            if not folder.exists():
                folder.mkdir()
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
        with self.file.open("rb") as given:
            # Spark skips files whose names begin with _ or a dot
            copy = self.version / f"{self.account}{self.file.suffix.lower()}"
            _create(copy, given, mode=stat.S_IMODE(os.fstat(given.fileno()).st_mode))
        texts = {
            self.request_file: yaml.safe_dump(self.request, sort_keys=False, allow_unicode=True, width=100),
            self.salt_file: f"{secrets.token_hex(32)}\n",
            self.settings_file: self._settings(),
        }
        if self.dag:
            texts[self.dag_file] = _DAG.format(
                account=self.account, epsilon=plain(self.epsilon), request=str(self.request_file)
            )
        shared = (self.salt_file, self.settings_file)
        new = []
        for path, text in texts.items():
            with suppress(FileExistsError):
                _create(path, io.BytesIO(text.encode()), mode=0o600 if path in shared else 0o644)
                new.append(path)
                if path not in shared:
                    undo.callback(path.unlink, missing_ok=True)
        return tuple(new)

    def _settings(self) -> str:
        """Lines for a shell; without the URL of a ledger that was given, which may hold a password."""
        variables = {SALT_FILE_VARIABLE: str(self.salt_file)}
        if self.ledger is None:
            variables["DP_LEDGER_URL"] = self.ledger_url
            connection = {"conn_type": "privacy_ledger", "extra": {"path": str(self.folder / "ledger.db")}}
            variables["AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT"] = json.dumps(connection)
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _create(path: Path, content: BinaryIO, *, mode: int) -> None:
    """Write a new file as a whole, or leave none."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        try:
            shutil.copyfileobj(content, file)
            file.flush()
        except BaseException:
            path.unlink()
            raise
