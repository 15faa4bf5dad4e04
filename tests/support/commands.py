"""``dp-budget run`` as a person calls it, with a real ledger and the real application."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dp_operators import cli
from dp_operators.budget.cli import run
from spark_jobs.contract import Release
from tests.support.release_lab import Lab


@dataclass(frozen=True, kw_only=True)
class Command:
    """``dp-budget run`` for an account of one table."""

    lab: Lab
    capture: pytest.CaptureFixture[str]

    def open(self, table: str, **settings: Any) -> None:
        self.lab.output = self.lab.open_account("rows", table, epsilon=100, **settings)

    def run(self, table: dict[str, Any], **changes: Any) -> tuple[int, list[str], list[str]]:
        """The exit code, and the lines of output and of errors."""
        fields: dict[str, Any] = {
            "account": "rows",
            "table": table,
            "diagnostics": [{"kind": "ecdf", "column": "score", "bounds": [0, 1]}],
            "budget": {"epsilon": 50},
            **changes,
        }
        file = Path(self.lab.folder) / "request.json"
        file.write_text(json.dumps(fields))
        self.capture.readouterr()
        private = f"{self.lab.folder}/private"
        status = run(cli.app, ["run", str(file), "--output", self.lab.output, "--private-dir", private])
        written = self.capture.readouterr()
        return status, written.out.splitlines(), written.err.splitlines()

    def release(self, table: dict[str, Any], **changes: Any) -> Release:
        """What is published and paid for."""
        status, lines, errors = self.run(table, **changes)
        assert status == 0, errors
        [charge] = self.lab.ledger().history("rows")
        assert charge.state == "committed"
        return Release.from_json((Path(lines[-1]) / "release.json").read_bytes())

    def refuses(self, table: dict[str, Any], line: str, *, states: tuple[str, ...] = (), **changes: Any) -> None:
        """Refused in one line, with nothing spent: not reserved, or given back as no row was read."""
        status, lines, errors = self.run(table, **changes)
        assert (status, lines) == (2, [])
        assert line in errors[-1], errors
        assert not any(line in earlier for earlier in errors[:-1])
        ledger = self.lab.ledger()
        assert tuple(charge.state for charge in ledger.history("rows")) == states
        assert ledger.remaining("rows").epsilon == 100
