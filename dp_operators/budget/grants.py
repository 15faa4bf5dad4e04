"""What a role of the PostgreSQL server needs for its part, so that the database itself refuses the rest."""

from __future__ import annotations

from spark_jobs.contract.errors import RequestRefused

VIEW, CHARGE, ADMINISTER = PARTS = ("view", "charge", "administer")

_EVERYTHING = "accounts, account_tables, allotments, block_totals, charges, audit_log, audit_head, ledger_version"
_CHARGES = (
    "GRANT INSERT ON block_totals, charges, audit_log TO {role};",
    "GRANT UPDATE ON block_totals, charges, audit_head TO {role};",
)
_ADMINISTERS = (
    "GRANT INSERT ON accounts, account_tables, allotments TO {role};",
    "GRANT UPDATE ON accounts, allotments TO {role};",
)


def grants(role: str, may: str) -> tuple[str, ...]:
    """The statements that let ``role`` do its part, to be run by the owner of the ledger's tables.

    ``view`` reads. ``charge`` reserves, commits and gives back, and can change no cap and no binding. ``administer``
    does that too. Nobody is granted to change or delete an entry of the audit log, or to delete anything at all.

    Args:
        role: the role's name in the server.
        may: ``view``, ``charge`` or ``administer``.

    Raises:
        RequestRefused: no such part, or no name of a role.
    """
    if may not in PARTS:
        raise RequestRefused("may", given=may, bound="must be one of " + ", ".join(PARTS), remedy="choose one")
    if not role or not role.isprintable() or len(role.encode()) > 63:
        raise RequestRefused("role", given=role, bound="must be a role of the server", remedy="name it")
    quoted = '"' + role.replace('"', '""') + '"'
    more = {VIEW: (), CHARGE: _CHARGES, ADMINISTER: (*_CHARGES, *_ADMINISTERS)}[may]
    return (
        f"REVOKE ALL ON {_EVERYTHING} FROM {quoted};",
        f"GRANT SELECT ON {_EVERYTHING} TO {quoted};",
        *(statement.format(role=quoted) for statement in more),
    )
