"""What the language of filters and features allows, and the error for anything else."""

from __future__ import annotations

FUNCTION_NAMES = {
    "Abs": "ABS",
    "Coalesce": "COALESCE",
    "Day": "DAY",
    "DayOfMonth": "DAY",
    "Exp": "EXP",
    "Greatest": "GREATEST",
    "Least": "LEAST",
    "Length": "LENGTH",
    "Ln": "LN",
    "Lower": "LOWER",
    "Month": "MONTH",
    "Pow": "POWER",
    "Sqrt": "SQRT",
    "Trim": "TRIM",
    "Upper": "UPPER",
    "Year": "YEAR",
}
"""sqlglot's name for each function, and its name in the language."""
FUNCTIONS = tuple(sorted(set(FUNCTION_NAMES.values())))
ALLOWED = (
    "columns, numbers, 'text', DATE and TIMESTAMP literals, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, "
    f"+ - * /, CASE, CAST and the functions {', '.join(FUNCTIONS)}"
)


class NotAllowedError(Exception):
    """A part of a text is not in the language; the caller adds the field and the text.

    Args:
        requirement: what is not allowed.
        remedy: what to do.
    """

    def __init__(self, requirement: str, remedy: str = f"use {ALLOWED}") -> None:
        super().__init__(requirement)
        self.requirement = requirement
        self.remedy = remedy
