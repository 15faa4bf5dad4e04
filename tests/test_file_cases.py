"""Tables as programs write them and words as authors write them, through `dp-budget open` and `dp-budget run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from spark_jobs.contract.release import Release
from tests.support.file_cases import CASES, ROWS, SECRET, FileCase, request_of

pytestmark = pytest.mark.slow

DpBudget = Callable[..., tuple[int, str, str]]
RELEASED = [name for name, case in CASES.items() if not case.told]


@pytest.fixture
def dp_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> DpBudget:
    """Runs a command; gives its exit code, what it printed, and its lines of errors."""
    monkeypatch.setenv("DP_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(app, list(arguments))
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        return status, said.out, said.err

    assert call("migrate")[0] == 0
    return call


def opened(dp_budget: DpBudget, tmp_path: Path, account: str, case: FileCase) -> tuple[int, str, str]:
    forms = [word for form in case.file_form for word in ("--file-form", form)]
    return dp_budget(
        *("open", account, "--epsilon", "100", "--table", f"{tmp_path}/{account}", "--columns", case.columns),
        *("--output", f"{tmp_path}/releases/{account}", "--format", case.form, "--yes", *forms),
    )


def written(tmp_path: Path, account: str, case: FileCase) -> str:
    """Write a case's files and its request; the path of the request."""
    folder = tmp_path / account / "v1"
    folder.mkdir(parents=True)
    case.write(folder)
    file = tmp_path / f"{account}.yaml"
    file.write_text(yaml.safe_dump(request_of(account, case), allow_unicode=True))
    return str(file)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.told])
def test_what_cannot_be_released_is_refused_in_one_line_for_nothing(
    dp_budget: DpBudget, tmp_path: Path, name: str
) -> None:
    case, account = CASES[name], name.replace(" ", "-")
    assert opened(dp_budget, tmp_path, account, case)[0] == 0  # there are no files yet
    file = written(tmp_path, account, case)
    status, _, said = opened(dp_budget, tmp_path, account, case)
    assert status == (2 if case.opened else 0), said
    assert case.opened in said
    for options in (["--dry-run"], []):
        status, out, said = dp_budget("run", file, *options)
        assert (status, out, said.count("\n")) == (2, "", 1)
        assert case.told in said
        assert "retry" not in said
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert ledger.history(account) == ()


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.usefixtures("shared_java")
@pytest.mark.parametrize("name", RELEASED)
def test_what_can_be_read_is_released_whole(dp_budget: DpBudget, tmp_path: Path, name: str) -> None:
    case, account = CASES[name], name.replace(" ", "-")
    file = written(tmp_path, account, case)
    status, _, said = opened(dp_budget, tmp_path, account, case)
    assert status == 0, said
    assert dp_budget("run", file, "--dry-run")[0] == 0
    status, uri, said = dp_budget("run", file, "--private-dir", f"{tmp_path}/private")
    assert status == 0, said
    require_right(Release.from_json((Path(uri.strip()) / "release.json").read_bytes()), case)
    for cause, words in (("not_parsed", "have a text that is no value of its column's type"), ("outside", "a label")):
        assert (words in said) == (cause in case.left_out)


def require_right(release: Release, case: FileCase) -> None:
    """At this epsilon the noise moves a count by no more than one row."""
    found, left_out = release.results["confusion_matrix"], release.left_out
    assert found["positives"] == pytest.approx(case.positives, abs=1.5)
    assert found["negatives"] == pytest.approx(case.negatives, abs=1.5)
    assert left_out is not None
    counted = {cause: count.value for cause, count in left_out.causes().items()}
    assert counted == pytest.approx({**dict.fromkeys(counted, 0), **case.left_out}, abs=1.5)
    assert case.positives + case.negatives + sum(case.left_out.values()) == ROWS


def test_a_first_line_that_open_refuses_says_what_to_declare(dp_budget: DpBudget, tmp_path: Path) -> None:
    case = CASES["14 semicolons"]
    written(tmp_path, "local", case)
    status, _, said = opened(dp_budget, tmp_path, "local", case)
    assert (status, said.count("\n")) == (2, 1)
    assert "declare it: --file-form separator=semicolon" in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("diagnostics: {kind: by_group, group_by: id, kinds: [auc], groups: [01067, 02139]}",
         "groups: got '01067'; is read as the number 1067; write quotes"),
        ("table: {snapshot: {path_version: 010}}", "path_version: got '010'; is read as the number"),
        ("lable: {column: churned}", "lable: is not a field of this part of the request; remove it or correct"),
        ("account: custmers", "got 'custmers'; must be an open account"),
        ("table: {path: /lake/moved, snapshot: {path_version: v1}}", "`dp-budget bind customers --table file:///lake/mo"),
        ("where: age != NULL", "a comparison with NULL is never true"),
        ("where: score BETWEEN 10 AND 1", "write the smaller bound first"),
        ("where: \"churned = '{{ params.churned }}'\"", "must not contain a template"),
    ],
)  # fmt: skip
def test_words_that_mean_nothing_are_refused_before_they_cost(
    dp_budget: DpBudget, tmp_path: Path, text: str, told: str
) -> None:
    case = CASES["20 kind"]
    file = Path(written(tmp_path, "customers", case))
    assert opened(dp_budget, tmp_path, "customers", case)[0] == 0
    sound = {**request_of("customers", case), "diagnostics": ["roc_curve"]}
    wrong = text.partition(":")[0]
    file.write_text(yaml.safe_dump({name: value for name, value in sound.items() if name != wrong}) + f"{text}\n")
    for options in (["--dry-run"], []):
        status, out, said = dp_budget("run", str(file), *options)
        assert (status, out, said.count("\n")) == (2, "", 1)
        assert told in said
    assert ("did you mean" in said) == (wrong in ("lable", "account"))
    assert PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}").history("customers") == ()
