"""A private stream of counts: each step takes a count and returns a private estimate, at one cost for all steps.

``CountStream`` holds the state between two steps, and exports it as bytes. It cannot be requested like the other
diagnostics, because a request is one run over one table with one release. Whoever runs a stream reserves its cost in
the ledger before the first step.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or moved to another step (``REPLACE_ONE``, with
twice the noise), for a stream of any length. See ``mechanisms.streams.local_level`` and ``papers.streams.pegasus``.
"""

from __future__ import annotations

from spark_jobs.diagnostics.count_stream.stream import CountSteps, CountStream, StreamMethod

__all__ = ["CountSteps", "CountStream", "StreamMethod"]
