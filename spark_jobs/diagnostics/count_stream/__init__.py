"""A private stream of counts: a count goes in at every step, a private estimate comes out, at one price for all steps.

``CountStream`` keeps what must be kept between two steps and gives it out as bytes. It is no kind of a request: a
request is one run over one table and one release, paid for once, and a stream is neither. It has a cost, which whoever
runs it reserves in the ledger before its first step.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or at another step (``REPLACE_ONE``, with twice
the noise), for a stream of any length. See ``mechanisms.streams.pegasus``.
"""

from __future__ import annotations

from spark_jobs.diagnostics.count_stream.stream import CountStream

__all__ = ["CountStream"]
