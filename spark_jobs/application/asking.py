"""Further points of a federated release, from evaluations that are paid for; no silo's rows are read again."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_jobs.application.draft import draft, versions
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.federated import finish, open_silo
from spark_jobs.contract.budget_split import BudgetPart, split_budget
from spark_jobs.contract.documents import parse_json
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import BY_KEYS
from spark_jobs.contract.grids import LINEAR_SCORE_CELLS
from spark_jobs.contract.options import CdfPointsOptions, ValueCells
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.release import Release, ReleasePart
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import open_store
from spark_jobs.diagnostics.cdf_points.measurement import CdfPointsDraw, points_of
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.federation.exchange import Silo, draw_hash
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.mechanisms.paid_counts import PaidCounts
from spark_jobs.statistics.value_grid import ValueGrid
from spark_jobs.wording.rules import rules


def ask(
    release: bytes,
    *,
    thresholds: Sequence[float],
    quantiles: Sequence[float],
    output: str,
    poll_seconds: float = 1.0,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Ask the servers of a release for further points, and write the answers as a release of their own.

    Nothing is charged: the release has paid for a fixed number of evaluations, and the servers answer no more than that
    number. A point that was evaluated before gets the same noisy number again.

    Args:
        release: the manifest of a release with ``cdf_points``; the silo that made the release is registered here.
        thresholds: values up to which rows are counted, ascending (``CdfPointsSettings``).
        quantiles: levels whose quantiles are found by bisection.
        output: a new folder or URI.
        poll_seconds: the pause between two checks for an answer.
        environ: environment variables, which name the folder of registered federations.

    Returns:
        The URI of the new manifest.

    Raises:
        InvalidRequest: too few evaluations are left; or the release, its registration or a point is not valid.
        FederationFailed: a server did not answer.
    """
    published = Release.parse(parse_json(release, what="release"))
    request = ReleaseRequest.parse(published.request)
    preflight(request)
    part = next((share for share in split_budget(request) if set(share.kinds) <= BY_KEYS), None)
    if part is None or request.federation is None or published.key is None:
        raise InvalidRequest(
            "release",
            None,
            "must be the release of a federation, with the diagnostic cdf_points",
            "name the release.json that one of the silos published",
        )
    paid_for = part.diagnostics[0]
    options = CdfPointsOptions.parse(
        {**paid_for.model_dump(mode="json"), "thresholds": thresholds, "quantiles": quantiles}
    )
    store, manifest = open_store(output), f"{output.rstrip('/')}/release.json"
    if store.read(manifest) is not None:
        raise InvalidRequest("output", output, "must not hold a release yet", "name a new folder")
    silo = replace(open_silo(request.federation, environ), poll_seconds=poll_seconds)
    paid = CdfPointsOptions.parse(paid_for.model_dump(mode="json"))
    drawn = _drawn(silo, part, options, paid=paid, rounding=published.rounding)
    further = request.model_copy(update={"diagnostics": (options,)})
    document, files = draft(
        further, _release_draw(drawn, part, published, further, silo), key=published.key, rules=rules(further)
    )
    for name, content in files.items():
        store.create(f"{output.rstrip('/')}/{name}", content)
    store.create(manifest, document.to_json().encode())
    finish(request.federation, environ)
    return manifest


def _drawn(
    silo: Silo, part: BudgetPart, options: CdfPointsOptions, *, paid: CdfPointsOptions, rounding: str
) -> CdfPointsDraw:
    silo, deposit, earlier = silo.resumed()
    statistic = options.statistic
    if not isinstance(statistic, ValueCells):
        grid = ValueGrid(lower=0.0, upper=1.0, cells=LINEAR_SCORE_CELLS)
    else:
        grid = ValueGrid(**statistic.grid)
    counts = PaidCounts(partial(silo.ask, deposit), cells=grid.size, evaluations=paid.evaluations(grid.size))
    terms = Terms(epsilon=part.epsilon_per_row, noise=SecureNoise())
    return points_of(counts, grid, options, terms, earlier=earlier, rounding=rounding)


def _release_draw(
    drawn: CdfPointsDraw, part: BudgetPart, published: Release, further: ReleaseRequest, silo: Silo
) -> ReleaseDraw:
    """The draw as that of a release, at the cost that was paid for all evaluations."""
    [spending] = drawn.spendings
    epsilon = part.of_row(spending.epsilon)
    cost = part.cost(epsilon, spending.delta)
    measurement = drawn.to_dict()
    return ReleaseDraw(
        charge_id=published.charge_id,
        request_sha256=further.sha256,
        drawn_at=dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        seed=int(draw_hash([silo.agreement.sha256, measurement])[:16], 16) >> 1,
        guarantee=drawn.guarantee,
        cost=cost,
        parts=(
            ReleasePart(
                kinds=part.kinds,
                cost=cost,
                spendings=(part.spending(spending.label, replace(spending, epsilon=epsilon)),),
            ),
        ),
        events=(),
        measurements={options.kind: measurement for options in further.diagnostics},
        versions=versions(),
        rounding=drawn.rounding,
    )
