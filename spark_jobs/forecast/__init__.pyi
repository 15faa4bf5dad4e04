from spark_jobs.forecast.typical_rows import typical_statistic as typical_statistic
from spark_jobs.forecast.widths import (
    ExpectedWidths as ExpectedWidths,
    expected_widths as expected_widths,
    widths_of as widths_of,
)
