"""Random expressions of the allow-list, and a table of values chosen to break them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEAST, MOST = -(2**63), 2**63 - 1
LONGS = [0, 1, -1, 7, 2**31, 2**53 + 1, MOST, LEAST, MOST - 1, None]
INTS = [0, 1, -1, 2**31 - 1, -(2**31), 18_262, -719_162, 2_932_896, None]
DOUBLES = [0.0, -0.0, 1.5, -1.0, 5e-324, 1.8e308, -1.8e308, 9.3e18, float("inf"), float("-inf"), float("nan"), None]
TEXTS = [
    *("", " ", "a", "A b", "nan", "Infinity", "-1", "1.5", "1e999", "9223372036854775808", "true", "no", "\x00", "%"),
    *("2026-01-31", "2026-02-30", "+294247-01-10", "99999-01-01", "12:30", "\u1e9e\u0130", "\U0001f600", "x" * 5000),
    None,
]


def nasty_table(spark: SparkSession, path: str) -> DataFrame:
    """Rows of extreme values in columns of every readable type, read from Parquet so that executors compute."""
    from pyspark.sql import functions as sf

    size = 3 * len(TEXTS)
    rows = [
        (LONGS[n % len(LONGS)], INTS[n % len(INTS)], DOUBLES[n % len(DOUBLES)], TEXTS[n % len(TEXTS)], n % 3 or None)
        for n in range(size)
    ]
    frame = spark.createDataFrame(rows, "l bigint, i int, d double, s string, n int")
    frame = frame.select(
        "l",
        "i",
        "d",
        sf.when(sf.col("n") == 2, sf.expr("cast(X'FFFE41C3' as string)")).otherwise(sf.col("s")).alias("s"),
        sf.expr("n = 1").alias("b"),
        sf.expr("try_cast(i as tinyint)").alias("y"),
        sf.expr("try_cast(d as float)").alias("f"),
        sf.expr("try_multiply(try_cast(s as decimal(38, 10)), try_cast(l as decimal(38, 0)))").alias("c"),
        sf.date_from_unix_date("i").alias("t"),
        sf.timestamp_micros("l").alias("m"),
        sf.expr("try_cast(timestamp_micros(l) as timestamp_ntz)").alias("z"),
    )
    frame.write.parquet(path)
    return spark.read.parquet(path)


def _pick(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


def _build(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda **texts: "(" + template.format(**texts) + ")", **parts)


def expressions(depth: int, *, extreme: bool) -> dict[str, st.SearchStrategy[str]]:
    """Texts of the allow-list by the kind of their value, nested at most ``depth`` deep.

    Without ``extreme``, the columns are ``l d s b t`` alone and literals are small, so that Spark's own reading of the
    text, which is less careful, agrees.
    """
    if depth == 0:
        return _leaves(extreme)
    inner = expressions(depth - 1, extreme=extreme)
    whole, number, text, boolean, day, moment = (inner[kind] for kind in KINDS)
    numeric = whole | number
    compare = _pick("=", "!=", "<>", "<", "<=", ">", ">=")
    return {
        "whole": whole
        | _build("{a} {op} {b}", a=whole, b=whole, op=_pick("+", "-", "*"))
        | _build("- {a}", a=whole)
        | _build("{f}({a})", f=_pick("year", "month", "day"), a=day | moment)
        | _build("length({a})", a=text)
        | _build("abs({a})", a=whole)
        | _build("{f}({a}, {b})", f=_pick("coalesce", "least", "greatest"), a=whole, b=whole)
        | _build("try_cast({a} as {t})", a=numeric | text | boolean, t=_pick("int", "bigint")),
        "number": number
        | _build("{a} {op} {b}", a=number, b=numeric, op=_pick("+", "-", "*", "/"))
        | _build("{a} / {b}", a=whole, b=whole)
        | _build("{f}({a})", f=_pick("exp", "ln", "sqrt", "abs", "-"), a=number)
        | _build("power({a}, {b})", a=numeric, b=number)
        | _build("case when {c} then {a} when {e} then {b} end", c=boolean, e=boolean, a=numeric, b=number)
        | _build("try_cast({a} as double)", a=numeric | text | boolean),
        "text": text
        | _build("{f}({a})", f=_pick("lower", "upper", "trim"), a=text)
        | _build("{f}({a}, {b})", f=_pick("coalesce", "least", "greatest"), a=text, b=text)
        | _build("try_cast({a} as string)", a=whole | boolean | day | text | moment),
        "boolean": boolean
        | _build("{a} {op} {b}", a=numeric, b=numeric, op=compare)
        | _build("{a} {op} {b}", a=text, b=text, op=compare)
        | _build("{a} {op} {b}", a=day, b=day, op=compare)
        | _build("{a} {op} {b}", a=moment, b=moment, op=compare)
        | _build("{a} {op} {b}", a=boolean, b=boolean, op=_pick("and", "or", "=", "!="))
        | _build("not {a}", a=boolean)
        | _build("{a} {op} null", a=numeric | text | boolean | day, op=_pick("is", "is not"))
        | _build("{a} {op} (1, 2e0, -3)", a=numeric, op=_pick("in", "not in"))
        | _build("{a} in ('', 'a', '1')", a=text)
        | _build("{a} between {b} and {c}", a=numeric, b=numeric, c=numeric)
        | _build("{a} {op} {p}", a=text, op=_pick("like", "not like"), p=_pick(*PATTERNS))
        | _build("try_cast({a} as boolean)", a=numeric | text),
        "day": day
        | _build("try_cast({a} as date)", a=day | moment)
        | _build("try_cast(trim({a}) as date)", a=text)
        | _build("coalesce({a}, {b})", a=day, b=day),
        "moment": moment | _build("try_cast({a} as timestamp)", a=day) | _build("least({a}, {b})", a=moment, b=moment),
    }


def _leaves(extreme: bool) -> dict[str, st.SearchStrategy[str]]:
    if not extreme:
        return {
            "whole": _pick("l", "0", "1", "3"),
            "number": _pick("d", "0e0", "1e0", "25e-1"),
            "text": _pick("s", "''", "'a'", "' 2 '"),
            "boolean": _pick("b", "true", "false"),
            "day": _pick("t", "date '2026-01-31'"),
            "moment": _pick("m", "timestamp '2026-01-31 12:00:00'"),
        }
    return {
        "whole": _pick("l", "i", "y", "0", "-1", "9223372036854775807", "-9223372036854775808"),
        "number": _pick("d", "f", "c", "0e0", "-1.5", "1e308", "5e-324"),
        "text": _pick("s", "''", "'NaN'", "'9223372036854775807'", "'2026-01-31'"),
        "boolean": _pick("b", "true", "false"),
        "day": _pick("t", "date '0001-01-01'", "date '9999-12-31'"),
        "moment": _pick("m", "z", "timestamp '0001-01-01 00:00:00'", "timestamp '9999-12-31 23:59:59'"),
    }


PATTERNS = ("'a'", "''", "'%a'", "'_%'", "'%1%'", "'a%b'", "'_'", "'%'", "'1_%_'", "'_0_%-3_'", "'%2%'")
KINDS = ("whole", "number", "text", "boolean", "day", "moment")
