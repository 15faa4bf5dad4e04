"""One measurement that several diagnostics of a classifier share; its cost is paid once.

Groups of scores are placed like the cells of a ROC curve, with a small share of the budget. In every group the
positives, the negatives and, if a diagnostic needs it, the centred sum of scores are released. A ROC curve uses the
counts; binned residuals and calibration use all three sums; each diagnostic may merge neighbouring groups. All of this
is post-processing, so each diagnostic has the accuracy of the whole budget.

If the diagnostics are also requested for a few groups of rows (``by_group``), the rows of each group key get such sums
of their own, and the sums of all rows are the totals over keys.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). The histograms that place the groups compose sequentially with the groups' sums (``mechanisms.group_sums``).
"""
