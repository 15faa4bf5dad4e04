"""The tiers of the tests: each test is in exactly one, by its markers; and how tests are shared out among processes.

``make test`` runs what has neither marker, ``make soak`` what is marked ``soak``, and ``make verify`` what is marked
``verify`` alone. So one case of a test, or one test of a file, that takes long can be left to ``make soak``; so can
every second case, of a test that is marked ``halved``.
"""

from __future__ import annotations

import gc
import re
from collections import Counter, defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.repository import ROOT

ENGINES = ("spark", "airflow", "postgres", "cluster", "browser")
COLLECTED = pytest.StashKey[dict[str, frozenset[str]]]()
"""Every test that was collected, before any was deselected, with the names of its markers."""
ORDER = {
    "cluster": r"pytest\.mark\.cluster\b",
    "airflow": r"pytest\.mark\.airflow\b",
    "spark": r"def \w+\((?:[^)]*[\s,])?spark\b\s*[:,)]",  # an argument: the run's session
    "java": r"\bshared_java\b",
    "browser": r"pytest\.mark\.browser\b",
    "slow": r"pytest\.mark\.slow\b",
}
"""What a file is about, by the first of these expressions that its text has."""
FIRST = ("cluster", "spark", "java", "airflow", "browser", "slow")
"""The files that are run first, in this order, so that no process has a long one left at the end."""
SHARED = ("cluster", "spark", "java")
"""Those whose files all go to one process, so that the engine is started once; they take longest, so they are first."""

APART = ("tests/benchmarks/test_quick_runs.py",)
"""Files of long cases that have nothing in common, each of which goes to whichever process is free."""


def pytest_configure(config: pytest.Config) -> None:
    """In the inner loop, Hypothesis tries fewer examples."""
    if "slow" in left_out(config):
        hypothesis.settings.register_profile("inner loop", parent=hypothesis.settings(), max_examples=20)
        hypothesis.settings.load_profile("inner loop")


def left_out(config: pytest.Config) -> set[str]:
    """The markers whose tests are left out by ``-m "not a and not b"``; the inner loop leaves out ``slow``."""
    return {*re.findall(r"not (\w+)(?: and |$)", config.getoption("markexpr"))}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the inner loop, import no file of which every test is left out: importing all of them takes half its time."""
    without = left_out(config)
    if "slow" not in without or collection_path.suffix != ".py":
        return None
    marks = re.search(r"^pytestmark = (.*?)^$", collection_path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return bool(marks and without & {*re.findall(r"pytest\.mark\.(\w+)", marks.group(1))}) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without searching for garbage: what is imported stays, and the searches took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each case its tier, remember what was collected, and put the tests that start an engine first."""
    _keep_one_of_each_sample(items)
    _leave_every_second_case_to_soak(items)
    config.stash[COLLECTED] = {item.nodeid: frozenset(mark.name for mark in item.iter_markers()) for item in items}
    items.sort(key=lambda item: rank(item.nodeid))
    if "slow" in left_out(config):
        cases = _cases_of_the_inner_loop(items, left_out(config))
        config.hook.pytest_deselected(items=[item for item in items if item not in cases])
        items[:] = [item for item in items if item in cases]


def _cases_of_the_inner_loop(items: list[pytest.Item], without: set[str]) -> set[pytest.Item]:
    """At most three cases of each test: the first, one in the middle and the last."""
    tests = defaultdict(list)
    for item in items:
        if not without.intersection(mark.name for mark in item.iter_markers()):
            tests[item.nodeid.partition("[")[0]].append(item)
    places = ((cases, {0, len(cases) // 2, len(cases) - 1}) for cases in tests.values())
    return {cases[place] for cases, chosen in places for place in chosen}


def _keep_one_of_each_sample(items: list[pytest.Item]) -> None:
    seen = set()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None or item.get_closest_marker("verify"):
            continue
        values = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        test = item.nodeid.partition("[")[0]
        shown = {(test, name, str(values[name])) for name in sampled.args} or {(test, "", "")}
        if shown <= seen:
            item.add_marker(pytest.mark.verify)
        seen |= shown


def _leave_every_second_case_to_soak(items: list[pytest.Item]) -> None:
    """By Thue and Morse's sequence, 0110 1001 ..., whose turns fall into step with no parameter of the cases."""
    turns: Counter[str] = Counter()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "halved" in marks and "verify" in marks and "soak" not in marks:
            test = item.nodeid.partition("[")[0]
            if turns[test].bit_count() % 2:
                item.add_marker(pytest.mark.soak)
            turns[test] += 1


def rank(nodeid: str) -> int:
    """The place of a test's file in the order of the run."""
    engine = _engine_of(nodeid.partition("::")[0])
    return FIRST.index(engine) if engine else len(FIRST)


def group_of(nodeid: str) -> str:
    """What a test is given to a process with: all tests of a shared engine, else those of its file, else itself."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    engine = _engine_of(file)
    return engine if engine in SHARED else file


@cache
def _engine_of(file: str) -> str:
    """What a file of this repository is about; the scheduler knows names of tests alone."""
    path = ROOT / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return next((engine for engine, expression in ORDER.items() if re.search(expression, text)), "")


class ByEngine(LoadFileScheduling):
    """Shares tests out by ``group_of``."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByEngine | None:
    """Take the place of ``--dist=loadfile``, and keep the order of the collection."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return ByEngine(config, log)
