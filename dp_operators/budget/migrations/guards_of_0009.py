"""SQL of schema 0009 for PostgreSQL: the server logs the figures that a charge is committed with, and keeps them."""

from dp_operators.budget.migrations.guards_of_0005 import CHANGE_CHARGE, RESERVE_CHARGE
from dp_operators.budget.migrations.guards_of_0008 import replaced

_CREATE, _AGAIN = "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"

RESERVE_WITHOUT_FIGURES = replaced(
    replaced(RESERVE_CHARGE, _CREATE, _AGAIN),
    "OR NEW.drawn_events IS NOT NULL OR",
    "OR NEW.drawn_events IS NOT NULL OR NEW.figures IS NOT NULL OR",
)
CHANGE_WITH_FIGURES = replaced(CHANGE_CHARGE, _CREATE, _AGAIN)
for _before, _after in (
    ("NEW.settled_at, NEW.drawn_events)", "NEW.settled_at, NEW.drawn_events, NEW.figures)"),
    ("OLD.settled_at, OLD.drawn_events)", "OLD.settled_at, OLD.drawn_events, OLD.figures)"),
    (
        "THEN 'events are a short list'\n",
        "THEN 'events are a short list'\n"
        "        WHEN ends AND NEW.figures IS NOT NULL AND NOT (NEW.state = 'committed' AND is_events(NEW.figures))\n"
        "            THEN 'figures are a short list, of what is committed'\n",
    ),
    (
        "|| coalesce('\"events\":' || NEW.drawn_events || ',', '')\n",
        "|| coalesce('\"events\":' || NEW.drawn_events || ',', '')\n"
        "            || coalesce('\"figures\":' || NEW.figures || ',', '')\n",
    ),
):  # fmt: skip
    CHANGE_WITH_FIGURES = replaced(CHANGE_WITH_FIGURES, _before, _after)

FUNCTIONS = (RESERVE_WITHOUT_FIGURES, CHANGE_WITH_FIGURES)
CHARGERS = """
SELECT DISTINCT grantee::regrole::text FROM (
    SELECT (aclexplode(attacl)).grantee FROM pg_attribute WHERE attrelid = 'charges'::regclass
        AND attname = 'drawn_events'
) AS granted WHERE grantee NOT IN (0, (SELECT relowner FROM pg_class WHERE oid = 'charges'::regclass))
"""
"""Roles that may charge, under the grants of earlier schemas."""
