"""The text of a value as a value of its declared type; null if it does not fit."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf


def converted(text: Column, type_name: str) -> Column:
    """``text`` as by TRY_CAST to one of the contract's ``TEXT_TYPES`` or a decimal; it never raises."""
    if type_name == "string":
        return text
    if type_name == "timestamp":
        # a time of day alone would become a timestamp of the day of the run
        return sf.when(text.rlike(r"^\s*[+-]?\d{4,}-"), text.try_cast(type_name))
    return text.try_cast(type_name)
