"""The page of each kind of diagnostic: found by its kind, typed on its own result, loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import get_type_hints

import pytest

from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.publishing.rendering import Rendering


@pytest.mark.parametrize("kind", DIAGNOSTICS)
def test_page_renders_the_result_that_its_diagnostic_summarises(kind: str) -> None:
    hints = get_type_hints(import_module(f"spark_jobs.diagnostics.{kind}.page").render)
    assert list(hints.values())[1:] == [ReleaseRequest, Rendering]
    result, published = hints["result"], DIAGNOSTICS[kind].result
    assert published.__module__.startswith(("spark_jobs.contract.results.", "spark_jobs.contract.options."))
    assert issubclass(result, published)
    assert result is published or result.__module__.startswith(f"spark_jobs.diagnostics.{kind}")
    assert result is get_type_hints(diagnostic(kind).summarise)["return"]


@pytest.mark.slow
@pytest.mark.verify
def test_who_measures_and_summarises_loads_no_plotting() -> None:
    kinds = ", ".join(f"spark_jobs.diagnostics.{kind}" for kind in DIAGNOSTICS)
    program = f"import sys, {kinds}; print([name for name in sys.modules if name.split('.')[0] == 'matplotlib'])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "[]"
