"""The application's part in a federated release, run by each silo: all silos end with one common draw for all rows.

The rounds are in ``federation.exchange``. Every attempt of a silo sends the same vectors under the same masks and gets
the same sums. So a run that starts again adopts these sums, and all silos end with the same noisy statistics and the
same seed of the post-processing. Nothing is stored before all silos have made the same draw.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import Federation, Registration, registered_file
from spark_jobs.contract.release import PRIVATE
from spark_jobs.federation.agreement import silo_of
from spark_jobs.federation.exchange import FederationFailed, Silo, draw_hash
from spark_jobs.federation.measuring import SiloNoise
from spark_jobs.federation.own_keys import destroy, is_closed, registered_keys


def open_silo(federation: Federation, environ: Mapping[str, str] = os.environ) -> Silo:
    """This silo's side of a federation that has not failed; no row has been read yet.

    Raises:
        InvalidRequest: the federation that is registered here differs from the charged request's, the keys are not
            those of a silo, or the release has ended without a result.
    """
    agreement = Registration.read(environ, federation.name).agreement
    if agreement != federation.agreement:
        raise InvalidRequest(
            "federation", federation.name, "must be registered on this machine as it was when the request was charged",
            "mount the same folder of federations everywhere, or leave the federation out of an uncharged draft",
        )  # fmt: skip
    keys = registered_keys(environ, federation.name)
    silo = Silo(agreement=agreement, keys=keys, silo=silo_of(agreement, keys))
    try:
        silo.require_unrefused()
    except FederationFailed as failed:
        raise InvalidRequest(
            "federation", federation.name, f"must not have ended: {failed}",
            "agree on a new session with the other silos",
        ) from None  # fmt: skip
    return silo


def finish(federation: Federation, environ: Mapping[str, str] = os.environ) -> None:
    """Destroy this silo's keys if they are for this agreement alone and no evaluation that was paid for is left.

    All later steps are made from what is stored. Keys in a read-only folder stay: the administrator destroys them
    (``python -m spark_jobs.federation close``).
    """
    path = registered_file(environ, federation.name, "keys")
    with suppress(InvalidRequest, FederationFailed, OSError):
        if is_closed(path) or open_silo(federation, environ).left() == 0:
            destroy(path)


def noise_of(silo: Silo) -> SiloNoise:
    """The noise sampler for this silo's measurement, by which all silos make one draw, as if of all their rows."""
    return SiloNoise(silo.exchange, guarantee=PRIVATE, factor=silo.agreement.noise_factor, deposit=silo.deposit)


def agreed(silo: Silo, drawn: ReleaseDraw) -> ReleaseDraw:
    """The draw, once all silos have made it.

    The draw's seed is derived from its noisy values, so that simulations in post-processing are the same in every silo.

    Raises:
        FederationFailed: the silos' draws differ, or a server did not answer.
    """
    sha256 = draw_hash([silo.agreement.sha256, drawn.measurements, drawn.shared, list(drawn.events), drawn.left_out])
    silo.end(sha256)
    return replace(drawn, seed=int(sha256[:16], 16) >> 1)
