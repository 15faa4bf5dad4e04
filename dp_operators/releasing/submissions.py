"""The inputs that one run of the Spark application is started with."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """The steps that a run of a stream releases.

    Attributes:
        first, until: the number of the first step, and of the step after the last.
        segment: the number of the first step of the last recorded object; 0 before the first object.
        previous: hash of that object.
        document_sha256: hash of the run's request, whose snapshot the charge does not fix.
        checkpoint: URI of Spark's checkpoint, if the stream is followed.
    """

    first: int
    until: int
    segment: int
    previous: str
    document_sha256: str
    checkpoint: str = ""

    def named(self) -> dict[str, str]:
        """The command-line options of the application."""
        return {
            "steps": f"{self.first}:{self.until}",
            "previous": f"{self.segment}:{self.previous}",
            "document-sha256": self.document_sha256,
            **({"follow": self.checkpoint} if self.checkpoint else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The inputs of one run: all but the secret are on the command line, the secret is in the environment.

    Attributes:
        request_uri: URI of the charged request.
        request_sha256: the request's hash; the application checks it before anything else.
        charge_id: the charge that pays.
        key: the release key.
        output: URI of the folder that holds releases.
        run: the run's number in the ledger.
        draw_sha256: hash of the recorded draw, which the run must adopt; empty if the ledger has recorded none.
        stream: which steps a run of a stream releases; None for a release.
        secret: the charge's secret, with which everything in the draft is sealed.
    """

    request_uri: str
    request_sha256: str
    charge_id: str
    key: str
    output: str
    run: int
    draw_sha256: str = ""
    stream: StreamRun | None = None
    secret: bytes = field(repr=False)

    def arguments(self) -> list[str]:
        """The application's command-line arguments, written so that no value can be mistaken for an option."""
        named = {
            "request-sha256": self.request_sha256,
            "charge": self.charge_id,
            "key": self.key,
            "output": self.output,
            "run": self.run,
            **({"draw": self.draw_sha256} if self.draw_sha256 else {}),
            **({} if self.stream is None else self.stream.named()),
        }
        return [self.request_uri, *(f"--{name}={value}" for name, value in named.items())]

    def variables(self) -> dict[str, str]:
        """The environment variables that only the application gets."""
        return {RUN_SECRET_VARIABLE: self.secret.hex(), STAGE_NONCE_VARIABLE: self.nonce}

    @property
    def nonce(self) -> str:
        """Marks the lines by which this run announces its stages; made from the secret, so that rows cannot forge it.

        A later attempt reads the stages of the run with it.
        """
        return hmac.digest(self.secret, f"stages of run {self.run}".encode(), "sha256").hex()[:32]

    @property
    def token(self) -> str:
        """A name for this run's application, the same whenever it is submitted, of at most 63 letters and digits."""
        parts = f"{self.charge_id} {self.request_sha256} {self.run}"
        return f"dp-{hashlib.sha256(parts.encode()).hexdigest()[:40]}"
