"""SQL of schema 0008 for PostgreSQL: the server refuses every entry of a ledger that was moved."""

from dp_operators.budget.migrations.guards_of_0006 import APPEND_RESTORED

_HEAD = "SELECT seq, hash, frozen INTO STRICT head FROM audit_head WHERE id = 1 FOR UPDATE;"
_THAWED = "(NEW.action = 'thawed'\n"
_FROZEN = "frozen = CASE NEW.action WHEN 'frozen' THEN NEW.reason WHEN 'thawed' THEN '' ELSE frozen END\n"


def replaced(function: str, before: str, after: str) -> str:
    """``function`` with one part of it replaced, which it has exactly once."""
    if function.count(before) != 1:
        raise ValueError(before)
    return function.replace(before, after)


APPEND_UNMOVED = replaced(
    APPEND_RESTORED,
    _HEAD,
    """SELECT seq, hash, frozen, moved INTO STRICT head FROM audit_head WHERE id = 1 FOR UPDATE;
    IF head.moved <> '' AND NEW.action <> 'arrived' THEN
        RAISE SQLSTATE 'DP002' USING MESSAGE = 'the ledger is frozen: ' || head.frozen;
    END IF;""",
)
APPEND_UNMOVED = replaced(APPEND_UNMOVED, _THAWED, "(NEW.action IN ('thawed', 'moved', 'arrived')\n")
APPEND_UNMOVED = replaced(
    APPEND_UNMOVED,
    _FROZEN,
    """frozen = CASE NEW.action WHEN 'frozen' THEN NEW.reason WHEN 'thawed' THEN '' WHEN 'moved' THEN NEW.reason
            WHEN 'arrived' THEN NEW.details::jsonb ->> 'frozen' ELSE frozen END,
        moved = CASE NEW.action WHEN 'moved' THEN NEW.details::jsonb ->> 'to' WHEN 'arrived' THEN '' ELSE moved END
""",
)
