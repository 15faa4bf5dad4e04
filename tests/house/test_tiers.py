"""The tiers of the tests: the Makefile's selections share all tests out, and the first has every engine in it."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.soak import Part, due, page, parts, row_of, rows_of
from tests.support.repository import ROOT
from tests.support.tiers import COLLECTED, ENGINES, group_of, rank

SELECTIONS = {"test": "not verify and not soak", "verify": "verify and not soak", "storm": "soak"}
"""What the Makefile's targets select; ``soak`` runs ``storm``."""


@cache
def selection(target: str) -> str:
    """The marker expression that a target gives to pytest."""
    text = (ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert recipe, target
    [expression] = re.findall(r'pytest.* -m "([^"]+)"', recipe.group(1))
    return expression


@cache
def selected(expression: str, markers: frozenset[str]) -> bool:
    return Expression.compile(expression).evaluate(lambda name, **_: name in markers)


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> dict[str, frozenset[str]]:
    """All tests with their markers: as this run collected them, or as another one does where this is a partial run."""
    config = request.config
    if {Path(str(name)).resolve() for name in config.args} <= {ROOT, ROOT / "tests"}:
        return config.stash[COLLECTED]
    program = (
        "import json, sys, pytest\nfrom tests.support.tiers import COLLECTED\n"
        "class Listed:\n    def pytest_collection_finish(self, session):\n"
        "        found = session.config.stash[COLLECTED]\n"
        "        print('LISTED', json.dumps({name: sorted(markers) for name, markers in found.items()}))\n"
        "sys.exit(pytest.main(['--collect-only', '-qq', '-p', 'no:xdist', 'tests'], plugins=[Listed()]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("LISTED ")]
    return {name: frozenset(markers) for name, markers in json.loads(line.removeprefix("LISTED ")).items()}


@pytest.mark.parametrize("target", SELECTIONS)
def test_the_makefile_selects_by_tier(target: str) -> None:
    assert selection(target) == SELECTIONS[target]


@pytest.mark.verify
def test_every_test_is_in_exactly_one_tier(collected: dict[str, frozenset[str]]) -> None:
    tiers = {
        target: {test for test, markers in collected.items() if selected(selection(target), markers)}
        for target in SELECTIONS
    }
    assert all(tiers.values())
    assert set.union(*tiers.values()) == set(collected)
    assert sum(map(len, tiers.values())) == len(collected)


@pytest.mark.verify
def test_the_inner_loop_is_a_part_of_the_first_tier(collected: dict[str, frozenset[str]]) -> None:
    fast = [markers for markers in collected.values() if selected(selection("test-fast"), markers)]
    assert len(fast) > 1000
    assert all(selected(selection("test"), markers) for markers in fast)
    assert not any(markers & {*ENGINES, "slow", "audit"} for markers in fast)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_has_its_smoke_test_in_the_first_tier(engine: str, collected: dict[str, frozenset[str]]) -> None:
    assert any(engine in markers and selected(selection("test"), markers) for markers in collected.values())


def run_pytest(folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of one file, with the plugins of this project that no test needs an engine for."""
    (folder / "test_it.py").write_text(test)
    plugins = ("-p", "tests.support.run_folder", "-p", "tests.support.tiers", "-p", "no:cacheprovider")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *plugins,
            "-c",
            str(ROOT / "pyproject.toml"),
            "--rootdir",
            str(folder),
            str(folder),
            *options,
        ],
        cwd=ROOT,
        env=clean_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )


def clean_environment(folder: Path) -> dict[str, str]:
    """This process's environment without what pytest-xdist put there, and with a temporary folder of its own."""
    (folder / "temporary").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "TMPDIR": str(folder / "temporary")}


@pytest.mark.parametrize(("test", "code"), [("tmp_path", 0), ("", 1)])
@pytest.mark.verify
def test_what_tests_leave_in_the_temporary_folder_fails_the_run(tmp_path: Path, test: str, code: int) -> None:
    made = "tempfile.mkdtemp(prefix='forgotten-'" + (", dir=tmp_path)" if test else ")")
    done = run_pytest(tmp_path, f"import tempfile\ndef test_it({test}):\n    {made}\n")
    assert done.returncode == code, done.stdout
    assert ("1 passed, 1 error" in done.stdout) == bool(code)
    assert ("forgotten-" in done.stdout) == bool(code)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.verify
def test_folders_of_killed_runs_are_removed_by_the_next_run(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, living = (tmp_path / "temporary" / f"dp-tests-{number}-x" for number in (ended.pid, os.getpid()))
    for folder in (dead, living):
        (folder / "pytest-of-somebody").mkdir(parents=True)
    assert run_pytest(tmp_path, "def test_it(tmp_path):\n    assert False\n").returncode == 1
    assert list((tmp_path / "temporary").iterdir()) == [living]


def test_engines_come_first_and_share_a_process() -> None:
    cluster, spark, plain = (
        "tests/cluster/test_cluster.py::test_a",
        "tests/tables/test_blocks.py::test_b",
        "tests/contract/test_layout.py::test_c",
    )
    releases = "tests/releasing/test_sources.py::test_e"
    assert rank(cluster) < rank(spark) < rank(releases) < rank(plain)
    assert group_of(releases) == group_of("tests/test_file_cases.py::test_f") == "java"
    # of a Java of its own for each run
    alone = "tests/releasing/test_real_application.py"
    assert group_of(f"{alone}::test_g") == alone
    assert group_of(spark) == group_of("tests/tables/test_places.py::test_d") == "spark"
    case = "tests/benchmarks/test_quick_runs.py::test_a_benchmark_runs[speed]"
    assert group_of(case) == case
    assert group_of(plain) == "tests/contract/test_layout.py"


IMAGES, VERSION = parts(has=lambda name: True, user=0)[-4:-2]


def soaked(part: Part, code: int, output: str) -> tuple[str, ...]:
    return row_of(part, lambda _: (code, output), dt.date(2026, 11, 22), "abc")


def test_soak_says_how_each_part_ended() -> None:
    storm = Part(name="repetitions", command=("make", "storm"))
    assert soaked(storm, 0, "= 20 passed, 9 deselected in 494.00s =\n")[:3] == (
        "repetitions",
        "`make storm`",
        "20 passed, 9 deselected",
    )
    assert soaked(storm, 2, "= 1 failed, 19 passed in 4.00s =\n")[2] == "failed with 2: 1 failed, 19 passed"
    assert soaked(storm, 0, "no closing line")[2] == "done"
    images = Part(name="images", command=("make", "images"), missing="buildah")
    assert soaked(images, 0, "never run")[2] == "not run: no buildah"


def test_soak_goes_on_where_it_was() -> None:
    done, failed = (soaked(part, code, "")[:6] for part, code in ((IMAGES, 0), (VERSION, 2)))
    rows = {row[0]: (*row, "here") for row in (done, failed)}
    whole = page(rows)
    assert page({}, whole) == whole
    assert rows_of(whole)["images"] == rows["images"]
    left = [part.name for part in due([], whole, "abc".__eq__)]
    assert "images" not in left
    assert "Python 3.11" in left
    assert "repetitions: storm" in left
    # another commit begins anew, and a part that is named is run again
    assert "images" in [part.name for part in due([], whole, "abd".__eq__)]
    assert [part.name for part in due(["images"], whole, "abc".__eq__)] == ["images"]
    again = page({"images": (*soaked(IMAGES, 2, ""), "there")}, whole)
    assert "failed with 2" in " ".join(rows_of(again)["images"])
    assert again.count("| images |") == 1


def test_soak_has_every_part_and_says_what_a_machine_lacks() -> None:
    bare = parts(has=lambda name: False, user=1000)
    names = [part.name for part in bare]
    assert {"repetitions: storm", "repetitions: stream kills", "long audit: counts"} <= {*names}
    assert names[-4:] == ["images", "Python 3.11", "Python 3.12", "Python 3.13"]
    assert {part.name: part.missing for part in bare}["images"] == "buildah, debootstrap, root"
    assert not any(part.missing for part in parts(has=lambda name: True, user=0))
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert all({*targets} & {*part.command} for part in bare)
    assert all((ROOT / word.removeprefix("FILES=")).is_file() for part in bare for word in part.command if "=t" in word)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "outcome"),
    [(["-m", "not slow and not soak"], "no tests ran"), (["-m", "not soak"], "1 error"), (["-m", "slow"], "1 error")],
    ids=["left out", "not left out", "selected"],
)
def test_the_inner_loop_imports_no_file_that_it_leaves_out(tmp_path: Path, options: list[str], outcome: str) -> None:
    text = "import pytest\npytestmark = [pytest.mark.slow,\n    pytest.mark.audit]\n\nraise ImportError\n"
    assert outcome in run_pytest(tmp_path, text, *options).stdout


@pytest.mark.verify
def test_the_inner_loop_runs_three_cases_of_a_test(tmp_path: Path) -> None:
    text = (
        "import pytest, hypothesis\n"
        "@pytest.mark.parametrize('number', [pytest.param(-1, marks=pytest.mark.verify), *range(10)])\n"
        "def test_it(number):\n    assert number in (0, 5, 9)\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_both(number):\n    assert hypothesis.settings().max_examples == 20\n"
    )
    assert "5 passed, 8 deselected" in run_pytest(tmp_path, text, "-m", "not slow and not verify").stdout


@pytest.mark.verify
def test_one_case_of_a_sampled_audit_stays_in_the_first_tier(tmp_path: Path) -> None:
    text = (
        "import pytest\n"
        "@pytest.mark.sampled('name')\n"
        "@pytest.mark.parametrize('name', ['a', 'b'])\n"
        "@pytest.mark.parametrize('relation', ['added', 'replaced', 'both'])\n"
        "def test_it(name, relation):\n    pass\n"
        "@pytest.mark.sampled('name', 'relation')\n"
        "@pytest.mark.parametrize('name', ['a', 'b'])\n"
        "@pytest.mark.parametrize('relation', [pytest.param(1, marks=pytest.mark.verify), 2, 3])\n"
        "def test_both(name, relation):\n    pass\n"
    )
    # of the second, (a, 2), (b, 2) and (a, 3)
    assert "5 passed, 7 deselected" in run_pytest(tmp_path, text, "-m", "not verify").stdout
    assert "7 passed, 5 deselected" in run_pytest(tmp_path, text, "-m", "verify").stdout


@pytest.mark.verify
def test_every_second_case_of_a_halved_test_is_left_to_soak(tmp_path: Path) -> None:
    text = (
        "import pytest\n"
        "@pytest.mark.halved\n"
        "@pytest.mark.sampled\n"
        "@pytest.mark.parametrize('number', range(9))\n"
        "def test_it(number):\n    print('ran', number)\n"
    )
    for selection, ran in (("not verify and not soak", "0"), ("verify and not soak", "1467"), ("soak", "2358")):
        assert re.findall(r"ran (\d)", run_pytest(tmp_path, text, "-s", "-m", selection).stdout) == [*ran]
