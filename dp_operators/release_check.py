"""The contract that every release meets before it is paid for and shown.

What is checked is a draft, which is noisy already: a departure says nothing about anybody. It is an error of the
program, and stops the release before its commit. The rules for results are declared by the options of each kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dp_operators.releasing import ReleaseRejected
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import PRIVATE, Release
from spark_jobs.contract.result_checks import departures

ReadFile = Callable[[str], bytes | None]
"""Gives a draft's file by its name below the release's folder; None if there is none."""


class ReleaseCheckFailed(ReleaseRejected):
    """The draft does not meet the contract; trying again would make the same draft.

    Attributes:
        broken: the rules that do not hold, each as ``part: rule``; never a value.
    """

    def __init__(self, broken: Iterable[str]) -> None:
        self.broken = tuple(broken)
        super().__init__(f"the release does not meet its contract ({'; '.join(self.broken)}); it was not published")

    def __reduce__(self) -> tuple[object, ...]:
        # an exception is otherwise made again from its text, which does not say where one rule ends
        return (ReleaseCheckFailed, (self.broken,), vars(self))


def check_release(release: Release, read_file: ReadFile) -> None:
    """Check a draft's manifest and files against the contract.

    Raises:
        ReleaseCheckFailed: they do not meet it.
    """
    broken = [f"manifest: {line}" for line in _manifest(release)]
    broken += [f"files: {line}" for line in _files(release, read_file)]
    broken += [line for kind, result in release.results.items() for line in broken_rules(kind, result)]
    if broken:
        raise ReleaseCheckFailed(broken)


def broken_rules(kind: str, result: Mapping[str, Any]) -> list[str]:
    """The rules that the result of a diagnostic does not meet, each as ``kind: rule``.

    Args:
        kind: of the diagnostic.
        result: its JSON form, as the manifest has it.
    """
    if kind not in DIAGNOSTICS:
        return [f"{kind}: no contract is known"]
    options = DIAGNOSTICS[kind]
    lines = departures(result, figures=options.figures, checks=options.checks)
    return [f"{kind}: {line}" for line in lines]


def _manifest(release: Release) -> list[str]:
    """What does not hold of: paid for, private, within the reservation, and what was asked for."""
    request = release.request
    reserved = Budget.parse(request["budget"])
    requested = {entry["kind"] for entry in request["diagnostics"]}
    facts = {
        "a charge pays for it": release.status == "CHARGED" and bool(release.key and release.charge_id),
        "its noise is secure": release.guarantee == PRIVATE,
        "epsilon is above 0 and within the reservation": 0 < release.cost.epsilon <= reserved.epsilon,
        "delta is within the reservation": release.cost.delta <= reserved.delta,
        "the neighbours are those asked for": release.neighbours == request["neighbours"],
        "the unit is the one asked for": release.unit.model_dump(mode="json") == request["unit"],
        "the results are those asked for": set(release.results) == requested,
    }
    return [fact for fact, holds in facts.items() if not holds]


def _files(release: Release, read_file: ReadFile) -> Iterator[str]:
    """What does not hold of the files: they are there with the size and hash of the manifest, under different names."""
    names = [file.name for file in release.files]
    for file in release.files:
        content = read_file(file.name)
        if content is None or (len(content), hashlib.sha256(content).hexdigest()) != (file.size, file.sha256):
            yield "every file is as the manifest says"
            break
    if len(set(names)) < len(names):
        yield "names differ"
