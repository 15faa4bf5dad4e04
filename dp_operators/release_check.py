"""The release contract: every draft is checked against it before it is committed and published.

A draft is noisy already, so a broken rule reveals nothing about anybody. It shows an error of the program, and stops
the release before its commit. The rules for results are declared by the options of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dp_operators.releasing import ReleaseRejected
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import PRIVATE, Release

ReadFile = Callable[[str], bytes | None]
"""Reads a file of a draft by its name below the release's folder; gives None if the file is missing."""


class ReleaseCheckFailed(ReleaseRejected):
    """The draft breaks the contract; a retry would make the same draft.

    Attributes:
        broken: the broken rules, each as ``part: rule``; they contain no values.
    """

    def __init__(self, broken: Iterable[str]) -> None:
        self.broken = tuple(broken)
        super().__init__(f"the release does not meet its contract ({'; '.join(self.broken)}); it was not published")

    def __reduce__(self) -> tuple[object, ...]:
        # by default, unpickling would pass the message, from which the single rules cannot be recovered
        return (ReleaseCheckFailed, (self.broken,), vars(self))


def check_release(release: Release, read_file: ReadFile) -> None:
    """Check a draft's manifest and files against the contract.

    Raises:
        ReleaseCheckFailed: they break it.
    """
    broken = [f"manifest: {line}" for line in _manifest(release)]
    broken += [f"files: {line}" for line in _files(release, read_file)]
    broken += [line for kind, result in release.results.items() for line in broken_rules(kind, result)]
    if broken:
        raise ReleaseCheckFailed(broken)


def broken_rules(kind: str, result: Mapping[str, Any]) -> list[str]:
    """The rules that the result of a diagnostic breaks, each as ``kind: rule``.

    Args:
        kind: the kind of diagnostic.
        result: the result in JSON form, as in the manifest.
    """
    if kind not in DIAGNOSTICS:
        return [f"{kind}: no contract is known"]
    return [f"{kind}: {line}" for line in DIAGNOSTICS[kind].result.violations(result)]


def _manifest(release: Release) -> list[str]:
    """The broken rules on payment, privacy, cost, and agreement with the request."""
    request = release.request
    reserved = Budget.parse(request["budget"]).charged
    requested = {entry["kind"] for entry in request["diagnostics"]}
    facts = {
        "a charge pays for it": release.status == "CHARGED" and bool(release.key and release.charge_id),
        "its noise is secure": release.guarantee == PRIVATE,
        f"{reserved.currency} is above 0 and within the reservation": release.cost.is_within(reserved)
        and release.cost.counted_as(reserved) != "0",
        "delta is within the reservation": release.cost.delta <= reserved.delta,
        "the neighbours are those of the request": release.neighbours == request["neighbours"],
        "the unit is that of the request": release.unit.model_dump(mode="json") == request["unit"],
        "the results are those of the request": set(release.results) == requested,
    }
    return [fact for fact, holds in facts.items() if not holds]


def _files(release: Release, read_file: ReadFile) -> Iterator[str]:
    """The broken rules on files: each has the size and hash of the manifest, and no two have the same name."""
    names = [file.name for file in release.files]
    for file in release.files:
        content = read_file(file.name)
        if content is None or not file.matches(content):
            yield "every file is as the manifest says"
            break
    if len(set(names)) < len(names):
        yield "names differ"
