"""The SQL privileges that a PostgreSQL role needs to view, charge or administer; the server rejects all else.

There are two layers: privileges restrict the tables and columns that a role may use, and row-level security restricts
the rows. A role without grants sees nothing. The owner of the tables is bound by neither layer. No role may write
totals: the server updates them with each charge (``migrations/guards_of_totals``), for the owner as well.

All accounts share the head of the audit log, which every change updates. A role that may charge one account can
therefore see how many changes there are in total, but not what they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from spark_jobs.contract.errors import InvalidRequest

VIEW, CHARGE, ADMINISTER = PARTS = ("view", "charge", "administer")

_TABLES = (
    *("accounts", "account_tables", "key_lists", "allotments", "block_totals", "charges", "run_keys"),
    *("stream_steps", "audit_log"),
)
_KEYS, _STEPS = "run_keys", "stream_steps"
_EVERYTHING = ", ".join((*(table for table in _TABLES if table != _KEYS), "audit_head", "ledger_version"))
_CHANGED = (
    "state, manifest_sha256, renewed_at, settled_at, drawn_events, figures, runs, open_runs, draw_sha256",
    "changed_by, change_reason",
)
_ROLLBACK = ("seal_entry(integer, text)", "freeze_forgotten(integer, text, text, text, text)")
IDLE_SECONDS = 60
"""Seconds after which a session that waits within a transaction is ended: it would keep all others from charging."""
_CHARGES = (
    "GRANT INSERT ON charges, stream_steps TO {role};",
    "GRANT SELECT ON run_keys TO {role};",
    f"GRANT EXECUTE ON FUNCTION {', '.join(_ROLLBACK)} TO {{role}};",
    f"GRANT UPDATE ({', '.join(_CHANGED)}) ON charges TO {{role}};",
)
_ADMINISTERS = (
    "GRANT INSERT (at, actor, action, account, charge, reason, details) ON audit_log TO {role};",
    "GRANT EXECUTE ON FUNCTION hold_ledger() TO {role};",
    "GRANT INSERT ON accounts, account_tables, key_lists, allotments, block_totals TO {role};",
    "GRANT UPDATE (binding) ON account_tables TO {role};",
    "GRANT UPDATE (epsilon, delta, rho, slack) ON accounts, allotments TO {role};",
    "GRANT UPDATE (outputs, requester_approves) ON accounts TO {role};",
)
_ADMINISTERING = (
    *("opened", "raised", "allotted", "table bound", "outputs bound", "keys registered"),
    *("approvals set", "domains changed"),
)
# with USING alone, an update would silently skip the rows that the role sees and may not change
_CLAUSES = {"SELECT": "USING", "INSERT": "WITH CHECK", "UPDATE": "USING (true) WITH CHECK"}


def grants(role: str, may: str, *, account: str | None = None, allotment: str | None = None) -> tuple[str, ...]:
    """The statements that let ``role`` view, charge or administer, to be run by the owner of the ledger's tables.

    ``view`` reads. ``charge`` also reserves, commits, burns and gives back charges and may freeze the ledger, but
    changes no cap, total or binding. ``administer`` also opens accounts, raises caps and creates sub-budgets, and, for
    all accounts, thaws the ledger. No role may change or delete an entry of the audit log, or delete anything else. The
    server ends a charging role's session that is idle in a transaction, if the owner may alter the role; otherwise
    these statements raise a warning. Statements for one account add to the role's other privileges; statements for all
    accounts revoke all earlier privileges first.

    Args:
        role: the role's name on the server.
        may: ``view``, ``charge`` or ``administer``.
        account: the one account that the role may use; None for all accounts.
        allotment: the one sub-budget of the account that the role may charge, such as a team's; the role then sees only
            the charges of this sub-budget.

    Raises:
        InvalidRequest: ``may`` is unknown, ``role`` is not the name of a role, or a sub-budget is given without its
            account.
    """
    if may not in PARTS:
        raise InvalidRequest("may", may, "must be one of " + ", ".join(PARTS), "choose one")
    if not role or not role.isprintable() or len(role.encode()) > 63:
        raise InvalidRequest("role", role, "must be a role of the server", "name a role")
    if allotment is not None and account is None:
        raise InvalidRequest("allotment", allotment, "needs an account", "name the account of the sub-budget")
    if allotment is not None and may == ADMINISTER:
        raise InvalidRequest(
            "allotment", allotment, "can only be viewed or charged",
            "leave it out: a role that administers the account also administers its sub-budgets",
        )  # fmt: skip
    quoted = '"' + role.replace('"', '""') + '"'
    more = {VIEW: (), CHARGE: _CHARGES, ADMINISTER: (*_CHARGES, *_ADMINISTERS)}[may]
    return (
        *((f"REVOKE ALL ON {_EVERYTHING}, {_KEYS} FROM {quoted};",) if account is None else ()),
        *((f"REVOKE ALL ON FUNCTION hold_ledger(), {', '.join(_ROLLBACK)} FROM {quoted};",) if account is None else ()),
        f"GRANT SELECT ON {_EVERYTHING} TO {quoted};",
        *(statement.format(role=quoted) for statement in more),
        *(() if may == VIEW else (_not_idle(quoted),)),
        *(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;" for table in _TABLES),
        *_policies(role, quoted, may, account, allotment),
    )


def _not_idle(quoted: str) -> str:
    """Set the role's time for idle transactions; the owner of the tables may lack the right, and is told so."""
    tag = f"$idle_{hashlib.sha256(quoted.encode()).hexdigest()[:16]}$"
    setting = f"ALTER ROLE {quoted} SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
    missed = "have an administrator of the server set idle_in_transaction_session_timeout for this role"
    return f"DO {tag} BEGIN {setting}; EXCEPTION WHEN insufficient_privilege THEN RAISE WARNING '{missed}'; END {tag};"


def _policies(role: str, quoted: str, may: str, account: str | None, allotment: str | None) -> Iterator[str]:
    key = hashlib.sha256("\0".join((role, account or "", allotment or "")).encode()).hexdigest()[:16]
    for table in _TABLES:
        for command in _CLAUSES:
            name = f"ledger_{command.lower()}_{key}"
            yield f"DROP POLICY IF EXISTS {name} ON {table};"
            rows = _rows(table, command, may, account, allotment)
            if rows != "false" or command == "UPDATE":
                yield f"CREATE POLICY {name} ON {table} FOR {command} TO {quoted} {_CLAUSES[command]} ({rows});"


def _rows(table: str, command: str, may: str, account: str | None, allotment: str | None) -> str:
    """The SQL condition on the rows of a table that a part may read or write."""
    administered = table in ("accounts", "account_tables", "key_lists", "allotments", "block_totals")
    if table == _KEYS:  # of the charges that the role sees
        return "charge IN (SELECT id FROM charges)" if may != VIEW and command == "SELECT" else "false"
    if table == _STEPS:
        wanted = ("SELECT",) if may == VIEW else ("SELECT", "INSERT")
        return "charge IN (SELECT id FROM charges)" if command in wanted else "false"
    if command != "SELECT" and (may == VIEW or (administered and may != ADMINISTER)):
        return "false"
    if table == "audit_log" and command == "INSERT":
        return _entries(may, account)
    rows = [] if account is None else [f"{'name' if table == 'accounts' else 'account'} = {_text(account)}"]
    if allotment is not None and table == "charges":
        rows.append(f"allotment = {_text(allotment)}")
    if allotment is not None and table == "block_totals":
        rows.append(f"allotment IN ('', {_text(allotment)})")
    return " AND ".join(rows) or "true"


def _entries(may: str, account: str | None) -> str:
    """The SQL condition on the log entries that a part may append; entries about charges are written by the server."""
    if may != ADMINISTER:
        return "false"
    of_account = f"action IN ({', '.join(map(_text, _ADMINISTERING))}) AND charge = ''"
    if account is not None:
        return f"{of_account} AND account = {_text(account)}"
    return f"({of_account}) OR (account = '' AND charge = '' AND action IN ('frozen', 'thawed'))"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
