"""The contract that every release meets before it is paid for and shown, as Great Expectations suites.

What is looked at here is a draft: noised already, so a failed check says nothing about anybody. It means a fault of the
program, and stops the release before its commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from dp_operators.release_check.expectations import Expected, Table, unmet, within_set
from dp_operators.release_check.results import RESULTS
from dp_operators.releasing import ReleaseRejected
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import PRIVATE, Release

ReadFile = Callable[[str], bytes | None]
"""Gives a draft's file by its name below the release's folder; None if there is none."""


class ReleaseCheckFailed(ReleaseRejected):
    """The draft does not meet the contract; trying again would make the same draft.

    Attributes:
        broken: the expectations that do not hold, each as ``table: what``; never a value.
    """

    def __init__(self, broken: Iterable[str]) -> None:
        self.broken = tuple(broken)
        super().__init__(f"the release does not meet its contract ({'; '.join(self.broken)}); it was not published")

    def __reduce__(self) -> tuple[object, ...]:
        # an exception is otherwise made again from its text, which does not say where one expectation ends
        return (ReleaseCheckFailed, (self.broken,), vars(self))


def check_release(release: Release, read_file: ReadFile) -> None:
    """Check a draft's manifest and files against the contract.

    Raises:
        ReleaseCheckFailed: they do not meet it.
    """
    tables = [manifest_table(release), files_table(release, read_file)]
    broken = []
    for kind, result in release.results.items():
        if kind not in RESULTS:
            broken.append(f"{kind}: no contract is known")
            continue
        try:
            tables += RESULTS[kind](result)
        except (KeyError, TypeError, IndexError, ValueError):
            broken.append(f"{kind}: the result has another form")
    broken += unmet(tables)
    if broken:
        raise ReleaseCheckFailed(broken)


def manifest_table(release: Release) -> Table:
    """What the manifest says of itself: paid for, private, within the reservation, and what was asked for."""
    request = release.request
    reserved = Budget.parse(request["budget"])
    asked = {entry["kind"] for entry in request["diagnostics"]}
    facts = {
        "a charge pays for it": release.status == "CHARGED" and bool(release.key and release.charge_id),
        "its noise is secure": release.guarantee == PRIVATE,
        "epsilon is above 0 and within the reservation": 0 < release.cost.epsilon <= reserved.epsilon,
        "delta is within the reservation": release.cost.delta <= reserved.delta,
        "the neighbours are those asked for": release.neighbours == request["neighbours"],
        "the unit is the one asked for": release.unit.model_dump(mode="json") == request["unit"],
        "the results are those asked for": set(release.results) == asked,
    }
    expected = tuple(within_set(name, [True], what=name) for name in facts)
    return Table(name="manifest", columns={name: [holds] for name, holds in facts.items()}, expected=expected)


def files_table(release: Release, read_file: ReadFile) -> Table:
    """Every file is there, under a name of its own, with the size and hash that the manifest gives."""
    matches = []
    for file in release.files:
        content = read_file(file.name)
        same = content is not None and (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
        matches.append(same)
    expected = (
        within_set("matches", [True], what="every file is as the manifest says"),
        Expected(what="names differ", expectation="ExpectColumnValuesToBeUnique", arguments={"column": "name"}),
    )
    return Table(
        name="files", columns={"name": [file.name for file in release.files], "matches": matches}, expected=expected
    )
