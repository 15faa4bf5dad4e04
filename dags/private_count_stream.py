"""Arrivals by the hour, released privately: each day's run publishes the 24 steps of the day before.

The arrivals are invented. The account pays epsilon 1 once, for every hour of two years; no run pays again. A run that
is late, repeated, cleared or backfilled releases the hours that are due and not released yet, in order, and no hour
twice. A run that is triggered by hand releases the hours of all earlier days, and its table holds these days.

Name a file in the environment variable DP_DIAGNOSTICS_STREAM_KEYS_FILE of every worker; the example writes a key into
it.
"""

from airflow.sdk import DAG, task, timezone

from dp_operators.operators.count_stream import CountStreamOperator
from examples.demo import setting

with DAG(
    "private_count_stream",
    description="Private counts of arrivals by the hour, paid for once",
    doc_md=__doc__,
    schedule="@daily",
    start_date=timezone.datetime(2026, 1, 1),
    catchup=False,
    tags=["differential privacy"],
) as dag:

    @task
    def prepare(version: str) -> None:
        """Write the table, open the account and make a key, which exist already in production."""
        setting.prepare_arrivals(version)

    count = CountStreamOperator(
        task_id="count",
        account=setting.ARRIVALS_ACCOUNT,
        table=setting.ARRIVALS_TABLE,
        time="arrived_at",
        start=setting.ARRIVALS_START,
        step="1 hour",
        steps=2 * 365 * 24,
        method={"kind": "local_level", "season": 24},
        epsilon="1",
        until=setting.ARRIVALS_UNTIL,
        output=setting.ARRIVALS_OUTPUT,
        title="Arrivals by the hour",
        record="arrival",
        runner=setting.RUNNER,
    )

    prepare(setting.VISITS_VERSION) >> count
