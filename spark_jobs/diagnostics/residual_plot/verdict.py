"""The verdict of a residual plot, in words."""

from __future__ import annotations

from spark_jobs.diagnostics.residual_plot.lack_of_fit import CURVATURE, LINE, SHIFT, VARIANCE, LackOfFit

_WORDS = {
    (LINE, 1): "residuals rise along the fitted values (the slope of the model is wrong)",
    (LINE, -1): "residuals fall along the fitted values (the slope of the model is wrong)",
    (CURVATURE, 1): "the mean residual is higher at both ends than in the middle (curvature)",
    (CURVATURE, -1): "the mean residual is lower at both ends than in the middle (curvature)",
    (VARIANCE, 1): "the spread of the residuals grows with the fitted values (unequal variance)",
    (VARIANCE, -1): "the spread of the residuals shrinks as the fitted values grow (unequal variance)",
    (SHIFT, 1): "residuals are above 0 on average (the model predicts too little)",
    (SHIFT, -1): "residuals are below 0 on average (the model predicts too much)",
}


def verdict(tests: LackOfFit, findings: tuple[str, ...], *, error_rate: float, defined: bool) -> str:
    """The findings and their error rate, in one or two sentences."""
    if not defined:
        return "Too few rows for this noise: the model cannot be tested."
    rate = f"The tests reject at most {100 * error_rate:.4g} in 100 correct models."
    if not findings:
        return f"No shift, slope, curvature or change of spread was found, but there may be one. {rate}"
    words = "; ".join(_WORDS[name, tests.signs[name] or 1] for name in findings)
    return f"{words[0].upper()}{words[1:]}. {rate}"
