"""One run of the application: reuse the stored draw, or make one; then write the draft, which the draw determines."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.application.charged import require_charged
from spark_jobs.application.count_statistics import Counts
from spark_jobs.application.draft import draft, draws, versions
from spark_jobs.application.draw import NotThisDraw, ReleaseDraw
from spark_jobs.application.federated import agreed, finish, noise_of, open_silo
from spark_jobs.application.memory import trim
from spark_jobs.application.progress import Announcer
from spark_jobs.application.refusal_guard import RecordingNoise, forbid_refusal
from spark_jobs.application.unit_passes import UnitSquares, squares_of_units
from spark_jobs.application.unit_variance import measure_units
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.budget_split import BudgetPart, part_of_left_out, pays_for_left_out, split_budget
from spark_jobs.contract.embedded_engine import EMBEDDED, require_embedded
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.left_out import CAUSES, LEFT_OUT
from spark_jobs.contract.odds import LossLaw
from spark_jobs.contract.options import ByGroupOptions
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import Budget, exact_sum, plain, rho_of_epsilon
from spark_jobs.contract.release import PartSpending, Release, ReleaseFile, ReleasePart
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ApplicationStage, ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal, SealBroken, sha256
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.diagnostic import Draw, RhoTerms, Terms, diagnostic
from spark_jobs.mechanisms.left_out import count_left_out
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.wording.rules import rules


@dataclass(frozen=True, kw_only=True)
class Charged:
    """The charge that pays for a release, and the number of this run.

    Attributes:
        key: the release key.
        seal: the committer's seal, with the charge's id and the request's hash.
        run: number of the run, as the ledger recorded it.
        draw_sha256: hash of the draw that the ledger recorded; empty before there is one. With a recorded draw, the
            table is not read again.
    """

    key: str
    seal: Seal
    run: int
    draw_sha256: str = ""


def run_charged(
    request: ReleaseRequest,
    charged: Charged,
    *,
    output: str,
    store: ObjectStore,
    noise: Noise,
    master: str | None,
    announcer: Announcer,
) -> None:
    """Store the complete draft of a charged release, whatever earlier attempts have stored.

    Raises:
        InvalidRequest: the table, its schema or the configuration does not fit; no noise was drawn.
        RefusedTooLateError: something was refused after noise had been drawn.
        NotThisDraw: the stored draw is not the one that the ledger recorded.
        SealBroken: an object in the store was not written by a run of this charge.
    """  # fmt: skip
    seal = charged.seal
    layout = ReleaseLayout.of(output, charged.key, seal.charge_id)
    require_charged(request, seal, document_sha256=seal.request_sha256, command="dp-budget run")
    stored = store.read(layout.draw)
    if stored is None and not charged.draw_sha256:
        account = _read_account(store.read(layout.account), seal)
        drawn = make_draw(request, charge_id=seal.charge_id, noise=noise, master=master, announcer=announcer)
        failpoint("before_store_draw")
        # only the stored draw counts: if another attempt was first, this one's noise is discarded
        store.create(layout.draw, seal.close("draw.json", replace(drawn, account=account).to_json()))
        failpoint("after_store_draw")
        stored = store.read(layout.draw)
    if stored is None or charged.draw_sha256 not in ("", sha256(stored)):
        raise NotThisDraw
    announcer.stage(ApplicationStage.WRITING)
    failpoint("before_results")
    draft_folder = DraftFolder(store=store, layout=layout, seal=seal, draw_sha256=sha256(stored))
    content = seal.open("draw.json", stored)
    draw = ReleaseDraw.from_json(content, charge_id=seal.charge_id, request_sha256=seal.request_sha256)
    del stored, content  # of many groups, they are long
    trim()
    with forbid_refusal():
        release, files = draft(request, draw, key=charged.key, rules=rules(request))
    failpoint("after_results")
    manifest = _as_stored(release, files, draft_folder).to_bytes()
    del draw, release, files
    trim()
    failpoint("before_draft_manifest")
    draft_folder.create_manifest(manifest)
    failpoint("after_draft_manifest")
    if request.federation is not None:
        finish(request.federation)


def _as_stored(release: Release, files: Mapping[str, bytes], folder: DraftFolder) -> Release:
    """Store the files, and return the manifest of the stored ones.

    An attempt on another machine, with other versions of libraries, may have stored some of them first, with other
    bytes.
    """
    entries = []
    for entry in release.files:
        content: bytes | None = files[entry.name]
        if not folder.create_file(entry.name, files[entry.name]):
            content = folder.read_file(entry.name)
        if content is None:
            raise OSError("a file of the draft cannot be read back")
        entries.append(ReleaseFile.of(entry.name, content, entry.media_type))
    return release.model_copy(update={"files": tuple(entries)})


def _read_account(content: bytes | None, seal: Seal) -> AccountState:
    """The account's figures that the committer sealed for this charge.

    Raises:
        InvalidRequest: the stored figures are missing or were changed.
    """
    try:
        return AccountState.opened(content or b"", seal)
    except SealBroken:
        raise InvalidRequest(
            "account.json", None,
            "must be the file that was stored for the charged request, but the store holds another file",
            "find out who wrote the file in the store",
        ) from None  # fmt: skip


def run_uncharged(
    request: ReleaseRequest, *, output: str, store: ObjectStore, noise: Noise, master: str | None, announcer: Announcer
) -> str:
    """Write an uncharged draft, stamped UNCHARGED, directly into ``output``; return the URI of its manifest.

    Raises:
        InvalidRequest: the table, its schema or the configuration does not fit, ``output`` contains a release, or the
            request names a federation.
    """
    if request.federation is not None:
        raise InvalidRequest(
            "federation", request.federation.name, "must be left out of a draft that no ledger has charged",
            "leave it out, and try the request on the rows of this silo alone",
        )  # fmt: skip
    manifest = f"{output.rstrip('/')}/release.json"
    if store.read(manifest) is not None:
        raise InvalidRequest("output", output, "must not hold a release yet", "name a new folder")
    draw = make_draw(request, charge_id=None, noise=noise, master=master, announcer=announcer)
    announcer.stage(ApplicationStage.WRITING)
    trim()
    with forbid_refusal():
        release, files = draft(request, draw, key=None, rules=rules(request))
    for name, content in files.items():
        store.create(f"{output.rstrip('/')}/{name}", content)
    store.create(manifest, release.to_bytes())
    return manifest


def make_draw(
    request: ReleaseRequest, *, charge_id: str | None, noise: Noise, master: str | None, announcer: Announcer
) -> ReleaseDraw:
    """Count the table and draw the noise, once; neither the exact counts nor the session outlive this call.

    In a federation, the draw is of all silos' rows.

    Raises:
        InvalidRequest: the table, its schema or the configuration does not fit; no noise was drawn.
        FederationFailed: a silo or a server was missing or sent something wrong; nothing may be released.
    """
    preflight(request)
    if master == EMBEDDED:
        require_embedded(request)
        from spark_jobs.application.embedded_tables import prepare_embedded as prepare
    else:
        from spark_jobs.application.count_statistics import prepare
    silo = None if request.federation is None else open_silo(request.federation)
    from spark_jobs.application.count_statistics import count
    from spark_jobs.application.session import reading

    with reading(lambda spark: prepare(spark, request), master=master, announcer=announcer) as rows:
        announcer.stage(ApplicationStage.COUNTING)
        failpoint("before_count")
        counts = count(rows, request)
        squares = squares_of_units(rows, request)
        failpoint("after_count")
        announcer.stage(ApplicationStage.DRAWING)
        failpoint("before_draw")
        # fits in several passes and units' squares read the rows again, by what only noisy sums decide
        if silo is None:
            draw = measure(request, counts, charge_id=charge_id, noise=noise, squares=squares)
        else:
            draw = agreed(silo, measure(request, counts, charge_id=charge_id, noise=noise_of(silo)))
        failpoint("after_draw")
    return replace(draw, versions=versions(embedded=True)) if master == EMBEDDED else draw


def measure(
    request: ReleaseRequest,
    counts: Counts,
    *,
    charge_id: str | None,
    noise: Noise,
    squares: UnitSquares | None = None,
) -> ReleaseDraw:
    """The noisy statistics of every diagnostic of ``request``, within its budget.

    Each part of the budget runs at its cost for one row (``contract.budget_split``, group privacy), except the part for
    the squares of units. That part runs at its cost for a whole unit, and is measured from ``squares`` and from the
    draws of the other parts. Parts compose sequentially, and their costs add up exactly.

    Raises:
        InvalidRequest: the options of the first part do not fit; no noise was drawn.
        RefusedTooLateError: something was refused after noise had been drawn.
    """
    recording = RecordingNoise(noise)
    measurements: dict[str, dict[str, Any]] = {}
    shared: dict[str, Any] | None = None
    events: list[dict[str, Any]] = []
    parts: list[ReleasePart] = []
    largest: list[dict[str, str]] = []
    used: Draw | None = None
    left_out: dict[str, Any] | None = None
    units: dict[str, Any] | None = None
    for part in split_budget(request):
        measurement: Draw
        with forbid_refusal(recording):
            if part.of_units:
                measurement = measure_units(request, part, draws(request, measurements, shared), squares, recording)
            else:
                measurement = _measure_part(request, part, counts, recording, shared=used)
        if part.of_units:
            units = measurement.to_dict()
        elif part.shared:
            used = measurement
            shared = {"kinds": list(part.kinds), "measurement": measurement.to_dict()}
        else:
            measurements[part.kinds[0]] = measurement.to_dict()
        spent = [_stated(event, part) for event in measurement.spendings]
        events += [{"diagnostic": " + ".join(part.kinds), **event.to_dict()} for event in spent]
        cost = _cost(part, spent)
        spendings = tuple(part.spending(event.label, event) for event in spent)
        parts.append(ReleasePart(kinds=part.kinds, cost=cost, spendings=spendings))
        rows = part.max_rows if part.of_units else 1
        largest.append(recording.take_largest(times=part.noise_factor, rows=rows, rhos=part.losses_of_rho))
    if LEFT_OUT in counts:
        part = part_of_left_out(request)
        left_out, paid, bought = _measure_left_out(request, part, counts[LEFT_OUT], recording)
        events += paid
        parts += bought
        largest.append(recording.take_largest(times=part.noise_factor))
    return ReleaseDraw(
        charge_id=charge_id,
        request_sha256=request.sha256,
        drawn_at=dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        seed=secrets.randbits(63),
        guarantee=noise.guarantee,
        cost=_total(parts),
        parts=tuple(parts),
        events=tuple(events),
        measurements=measurements,
        versions=versions(),
        noise=tuple(largest),
        shared=shared,
        left_out=left_out,
        units=units,
    )


def _stated(event: Spending, part: BudgetPart) -> Spending:
    """What a mechanism spent, for one of the account's rows of a unit; of a budget of rho, its rho for the unit."""
    epsilon = part.of_row(event.epsilon)
    if part.granted.rho is not None and event.rho is not None:
        return replace(event, epsilon=epsilon, rho=part.rho_of_unit(event.rho, epsilon))
    return replace(event, epsilon=epsilon, delta=part.stated_delta(event.delta, epsilon))


def _cost(part: BudgetPart, spent: Sequence[Spending]) -> Budget:
    """What mechanisms cost a whole unit: a rho, if their budget is one."""
    if part.granted.rho is not None:
        return Budget(epsilon=0, rho=exact_sum(*(event.rho for event in spent if event.rho is not None)))
    return part.cost(exact_sum(*(event.epsilon for event in spent)), exact_sum(*(event.delta for event in spent)))


def _total(parts: Sequence[ReleasePart]) -> Budget:
    rhos = [part.cost.rho for part in parts if part.cost.rho is not None]
    return Budget(
        epsilon=exact_sum(*(part.cost.epsilon for part in parts)),
        delta=exact_sum(*(part.cost.delta for part in parts)),
        rho=exact_sum(*rhos) if rhos else None,
    )


def _measure_left_out(
    request: ReleaseRequest, part: BudgetPart, counts: Int64Array, noise: Noise
) -> tuple[dict[str, Any], list[dict[str, Any]], list[ReleasePart]]:
    """The noisy numbers of rows that did not count, with the event and the part that they cost where they do."""
    epsilon = part.epsilon_per_row
    noisy = count_left_out(counts, epsilon=epsilon, neighbours=request.neighbours, noise=noise)
    drawn = {"counts": dict(zip(CAUSES, noisy.tolist(), strict=True)), "epsilon": plain(epsilon)}
    if not pays_for_left_out(request):
        return drawn, [], []
    spent = Spending(label="rows that did not count", epsilon=part.of_row(epsilon))
    cost = part.cost(spent.epsilon, Decimal(0))
    spending = PartSpending(label=spent.label, epsilon=cost.epsilon)
    if part.granted.rho is not None:
        rho, law = rho_of_epsilon(cost.epsilon), LossLaw.CONCENTRATED
        spent, spending = replace(spent, law=law, rho=rho), spending.changed(law=law, rho=rho)
        cost = Budget(epsilon=0, rho=rho)
    event = {"diagnostic": LEFT_OUT, **spent.to_dict()}
    return drawn, [event], [ReleasePart(kinds=(LEFT_OUT,), cost=cost, spendings=(spending,))]


def _measure_part(
    request: ReleaseRequest, part: BudgetPart, counts: Counts, noise: Noise, *, shared: Draw | None
) -> Draw:
    """The draw of one part of the budget: of a diagnostic, or of several diagnostics that share it.

    ``shared`` is the one that was shared before, if there is one.
    """
    # counts by group are those of all rows, too
    options = next((one for one in part.diagnostics if isinstance(one, ByGroupOptions)), part.diagnostics[0])
    statistics = [counts[statistic] for statistic in options.statistics]
    terms: Terms = Terms(
        epsilon=part.epsilon_per_row,
        delta=part.delta_per_row if options.accepts_delta else 0,
        neighbours=request.neighbours,
        noise=noise,
    )
    if part.rho_per_row is not None:
        terms = RhoTerms(rho=part.rho_per_row, neighbours=request.neighbours, noise=noise)
    if part.shared:
        return measure_shared(statistics[0], part.diagnostics, terms)
    statistic = statistics[0] if len(statistics) == 1 else tuple(statistics)
    kind = diagnostic(options.kind)
    draw: Draw
    if options.uses_shared and shared is not None and kind.measure_rest is not None:
        draw = kind.measure_rest(statistic, options, terms, shared)
    else:
        draw = kind.measurement.measure(statistic, options, terms)
    return draw
