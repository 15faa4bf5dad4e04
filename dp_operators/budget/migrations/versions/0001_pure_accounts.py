"""Accounts with pure composition, their charges, and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("composition", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("rho", sa.Text),
        sa.Column("neighbours", sa.Text, nullable=False),
        sa.Column("unit_column", sa.Text),
        sa.Column("unit_max_rows", sa.Integer, nullable=False),
        sa.Column("opened_at", sa.Text, nullable=False),
        sa.Column("opened_by", sa.Text, nullable=False),
    )
    op.create_table(
        "account_tables",
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), nullable=False),
    )
    op.create_index("ix_account_tables_account", "account_tables", ["account"])
    op.create_table(
        "block_totals",
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), primary_key=True),
        sa.Column("block", sa.Text, primary_key=True),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("rho", sa.Text),
    )
    op.create_table(
        "charges",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, sa.ForeignKey("accounts.name"), nullable=False),
        sa.Column("release_key", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("entry", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("rho", sa.Text),
        sa.Column("blocks", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("request_sha256", sa.Text, nullable=False),
        sa.Column("manifest_sha256", sa.Text),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reserved_at", sa.Text, nullable=False),
        sa.Column("renewed_at", sa.Text, nullable=False),
        sa.Column("settled_at", sa.Text),
        sa.CheckConstraint("state IN ('reserved', 'committed', 'burnt', 'void')", name="charge_state"),
        sa.UniqueConstraint("account", "release_key", "generation", name="charge_generation"),
    )
    op.create_index(
        "charge_alive",
        "charges",
        ["account", "release_key"],
        unique=True,
        sqlite_where=sa.text("state <> 'void'"),
        postgresql_where=sa.text("state <> 'void'"),
    )
    op.create_table(
        "audit_log",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("charge", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("ix_audit_log_account", "audit_log", ["account"])
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.CheckConstraint("id = 1", name="audit_head_is_one_row"),
    )
    op.bulk_insert(head, [{"id": 1, "seq": 0, "previous": "0" * 64, "hash": "0" * 64}])
