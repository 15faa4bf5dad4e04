"""Accounts say whether a person may approve the higher cap that they asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("requester_approves", sa.Integer, nullable=False, server_default="0"))
