"""Real tables that may lie beside the repository; a test without the one that it needs is skipped, and says so."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.repository import ROOT

FOLDER = ROOT.parent / "shared" / "data"


def real_table(name: str, **options: object) -> pd.DataFrame:
    """The rows of a compressed csv file of the folder.

    Args:
        name: of the file, without its ending.
        options: for ``pandas.read_csv``.
    """
    path = FOLDER / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"NOT TESTED on the real table {name}: shared/data/{path.name} is not beside the repository")
    return pd.read_csv(path, **options)  # type: ignore[call-overload, no-any-return]
