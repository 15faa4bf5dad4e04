"""Forecasts: how wide the intervals of a request's release would be, from what the caller states about the table."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.forecast.typical_rows import typical_statistic as typical_statistic
    from spark_jobs.forecast.widths import ExpectedWidths as ExpectedWidths
    from spark_jobs.forecast.widths import expected_widths as expected_widths
    from spark_jobs.forecast.widths import widths_of as widths_of
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__, {"typical_rows": "typical_statistic", "widths": "ExpectedWidths expected_widths widths_of"}
    )
