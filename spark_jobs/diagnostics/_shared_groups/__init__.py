"""One noisy release that several diagnostics of a classifier are made from: paid once, read by all of them.

Groups of scores are placed as a ROC curve places its cells, by a small part of the budget and for both classes. In
every group three numbers are released: positives, negatives, and the centred sum of scores where a diagnostic needs
it. A ROC curve reads the counts, binned residuals and calibration read all three; each may join neighbouring groups.
All of that is post-processing, so the cost is that of the one release, and each diagnostic is as accurate as if it had
been given the pooled parts of the budget.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise): rounds that place the groups compose in sequence with the groups' numbers, for which see
``mechanisms.group_sums``.
"""
