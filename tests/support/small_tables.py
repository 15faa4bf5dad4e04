"""Small tables of one account, and a request for each: for many releases in one run."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_operators.budget import PrivacyLedger
from tests.support.accounts import bound
from tests.support.ledgers import new_ledger

ACCOUNT = "nightly"


@dataclass(frozen=True, kw_only=True)
class SmallTables:
    """Tables with a label, a score and a name, in Parquet; a request for a ROC curve of each, in a file.

    Attributes:
        folder: holds all of it.
        requests: the files, in the order of the tables.
    """

    folder: Path
    requests: tuple[Path, ...]

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/ledger.db"

    @property
    def output(self) -> Path:
        return self.folder / "releases"

    @property
    def private(self) -> Path:
        return self.folder / "private"

    def table(self, number: int) -> Path:
        """The file of a table."""
        return _file(self.folder, number)

    def damage(self, number: int) -> None:
        """Overwrite a table's values, and leave its footer as it is."""
        file = self.table(number)
        content = bytearray(file.read_bytes())
        content[100:-3000] = b"\x07" * (len(content) - 3100)
        file.write_bytes(content)

    def ledger(self) -> PrivacyLedger:
        return PrivacyLedger(self.url)

    def states(self) -> list[str]:
        with closing(self.ledger()) as ledger:
            assert ledger.verify()
            return [charge.state.value for charge in ledger.history(ACCOUNT)]


def small_tables(
    folder: Path, *, tables: int, rows: int, epsilon: str = "0.5", where: str = "score >= 0"
) -> SmallTables:
    """Write them, and open their account; the names of a table have its number: ``Zebedee-3-...`` is in the third."""
    random = np.random.default_rng(5)
    (folder / "requests").mkdir(parents=True)
    requests = []
    for number in range(tables):
        visit = random.random(rows) < 0.5
        names = [f"Zebedee-{number}-{row}" for row in range(rows)]
        scores = np.clip(random.normal(0.4 + 0.2 * visit, 0.2), 0, 1)
        file = _file(folder, number)
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"visit": visit.astype(int), "score": scores, "name": names}), file)
        request = {
            "account": ACCOUNT,
            "table": {"path": str(file.parent.parent), "snapshot": {"path_version": "v1"}},
            "label": "visit",
            "where": where,
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": ["roc_curve"],
            "budget": {"epsilon": epsilon},
            "output": f"{folder}/releases",
        }
        requests.append(folder / "requests" / f"{number:03}.json")
        requests[-1].write_text(json.dumps(request))
    with closing(new_ledger(folder / "ledger.db")) as ledger:
        bindings = [bound(_file(folder, number).parent.parent) for number in range(tables)]
        ledger.open_account(ACCOUNT, epsilon="1000", tables=bindings, outputs=[f"{folder}/releases"], actor="admin")
    return SmallTables(folder=folder, requests=tuple(requests))


def _file(folder: Path, number: int) -> Path:
    return folder / "lake" / f"table-{number:03}" / "v1" / "part.parquet"
