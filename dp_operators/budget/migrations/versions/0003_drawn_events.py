"""What a charge's mechanisms spent, beside what they were planned to spend."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("charges", sa.Column("drawn_events", sa.Text))
