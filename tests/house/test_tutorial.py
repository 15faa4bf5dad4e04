"""The tutorial, followed in an empty folder: as printed, and by a reader with a file of their own.

What the page says to replace is replaced: the folder, and for the other reader the names of columns and the labels.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dp_operators.budget import BudgetExceeded
from spark_jobs.contract.release import Release
from tests.support.code_blocks import Block, code_blocks
from tests.support.repository import ROOT, product_modules

PAGE = ROOT / "docs" / "tutorial.md"
FOLDER = "/path/to/tutorial"
REFUSED = 2
OWN = {
    "init customers.parquet": "init 'Export 2026.csv'",
    "Column that says": "Which columns hold numbers, e.g. 2,4: 3, 5\nColumn that says",
    "empty for none: 3": "empty for none: 1",
    "happened: yes": "happened: Ja",
    "did not happen: no": "did not happen: Nein",
    "score: 4": "score: p.score in %",
    "monthly fee (EUR)": "Umsatz (`netto`)",
    "epsilon: 0.6": "epsilon: 0.5",
}
"""What a reader with a file of their own replaces, and the epsilon that the page says is released."""


def test_quoted_refusals_are_those_of_the_product() -> None:
    text = PAGE.read_text()
    [shown] = [block.code for block in code_blocks(PAGE) if block.code.startswith("dp-budget: epsilon")]
    exceeded = BudgetExceeded(
        account="customers", block="all", requested=Decimal("0.6"), remaining=Decimal("0.5"), cap=Decimal(1)
    )
    assert re.fullmatch(pattern_of(shown), f"dp-budget: {exceeded}")
    quoted = [line.split("`")[1] for line in text.partition("| it says |")[2].splitlines() if line.startswith("| `")]
    requirements = [re.split(r"; |\.\.\. |: ", line)[-1] for line in quoted]
    assert len(requirements) == 4
    assert [words for words in requirements if words not in messages()] == []


def test_messages_that_the_help_explains_are_those_of_the_product() -> None:
    text = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    lines = [line.split("`") for line in text.splitlines() if line.startswith("| `") and "check-release" not in line]
    quoted = [words for _, words, between, *rest in lines for words in (words, *(rest[:1] if "..." in between else ()))]
    assert len(quoted) >= 12
    assert [words for words in quoted if words not in messages()] == []


def messages() -> str:
    """The texts of all modules; a message over several lines of code is one text."""
    return re.sub(r'"\s*f?"', "", "".join(path.read_text() for path in product_modules()))


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_tutorial_works_as_printed_without_java(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    results = follow(folder, replaced={})
    *done, refused = results
    assert {code for _, code, _ in done} == {0}, results
    assert refused[1] == REFUSED, refused
    [curve] = released(folder)
    assert 0.6 < curve.results["roc_curve"]["auc"] < 0.9
    assert (folder / "opened").read_text() == f"file://{(folder / 'folder.txt').read_text().strip()}/report.html"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_reader_with_another_file_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    write_own(folder / "Export 2026.csv")
    results = follow(folder, replaced=OWN, without=("sample.py",))
    assert {code for _, code, _ in results} == {0}, results
    by_kind = {next(iter(release.results)): release for release in released(folder)}
    assert by_kind["roc_curve"].results["roc_curve"]["auc"] > 0.6
    assert set(by_kind) == {"roc_curve", "ecdf"}


def follow(folder: Path, *, replaced: dict[str, str], without: tuple[str, ...] = ()) -> list[tuple[str, int, str]]:
    """Save the page's files and run its commands in the page's order; each block of commands, its code and output.

    Raises:
        AssertionError: a block printed something other than what the page shows below it.
    """
    folder.mkdir(exist_ok=True)
    blocks = [as_reader(block, folder, replaced) for block in code_blocks(PAGE)]
    script = ""
    for number, block in enumerate(blocks):
        if block.title and block.title not in without:
            (folder / block.title).write_text(block.code)
        elif block.language == "bash" and not block.code.startswith(("pip ", *(f"python {name}" for name in without))):
            typed = answers(blocks[number + 1]) if block.code.startswith("dp-budget init") else ""
            given = f" <<'ANSWERS'\n{typed}ANSWERS" if typed else ""
            script += f"{block.code.rstrip()}{given}\necho == $? {number}\n"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder.parent),
            "PYTHONPATH": str(ROOT),
            "BROWSER": f"{browser(folder.parent)} {folder}/opened %s",
            # a Java that is named and missing is refused as soon as one is needed
            **({} if replaced else {"JAVA_HOME": "/no/java"}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    results = []
    for output, code, number in re.findall(r"(.*?)^== (\d+) (\d+)$", done.stdout, re.M | re.S):
        shown = blocks[int(number) + 1]
        if shown.language == "text" and not replaced:
            # answers are not echoed, and no line ends after them
            asked = blocks[int(number)].code.startswith("dp-budget init")
            printed = re.sub(r":( .*)?(\n|$)", ": ", shown.code) if asked else shown.code
            assert re.search(pattern_of(printed), output), (shown.code, output)
        results.append((blocks[int(number)].code, int(code), output))
    assert results, done.stdout
    return results


def answers(dialogue: Block) -> str:
    """What the page says to type, a line for each question."""
    questions = [line for line in dialogue.code.splitlines() if ":" in line and not re.match(r" +\d+  ", line)]
    return "".join(f"{line.rpartition(':')[2].strip()}\n" for line in questions)


def as_reader(block: Block, folder: Path, replaced: dict[str, str]) -> Block:
    """A block with the reader's folder and names in the place of the page's."""
    code = block.code.replace(FOLDER, str(folder))
    for printed, own in replaced.items():
        code = code.replace(printed, own)
    return Block(page=block.page, line=block.line, language=block.language, title=block.title, code=code)


def pattern_of(shown: str) -> str:
    """What matches the lines of a block of output, in which ``...`` stands for anything within a line."""
    return re.escape(shown.strip()).replace(re.escape("..."), "[^\n]*")


def browser(folder: Path) -> Path:
    """A browser that writes the address it is given into a file."""
    path = folder / "browser"
    path.write_text('#!/bin/sh\nprintf %s "$2" > "$1"\n')
    path.chmod(0o755)
    return path


def released(folder: Path) -> list[Release]:
    """The releases that the folder's commands have published."""
    paths = (folder / "releases" / "customers").glob("*/release.json")
    return [Release.from_json(path.read_bytes()) for path in paths]


def write_own(path: Path) -> None:
    """A file as a spreadsheet exports it: with a byte-order mark, CRLF, quotes, and columns that nothing needs."""
    path.parent.mkdir(parents=True)
    generator = np.random.default_rng(8)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        rows = csv.writer(file)
        rows.writerow(["Antwort, endgültig", "Kd.-Nr.", "Umsatz (`netto`)", "Bemerkung", "p.score in %"])
        for number in range(2000):
            score = generator.beta(2, 3)
            answer = "Ja" if generator.random() < score else "Nein"
            rows.writerow([answer, f"K{number:05}", round(generator.gamma(4, 10), 2), 'sagt "bald", oder nie', score])
