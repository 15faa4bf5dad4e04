"""A release of the previous day, every day: it reads that day's rows and is paid for by that day's budget.

The visits are invented. Their account has a budget of epsilon 1.5 for each day, and each release costs 0.5.

Two DAGs do the same on the two kinds of schedule that Airflow 3 has for this. `release_by_day` runs `@daily`; such a
run has no data interval, and `blocks="interval"` stands for the days between the previous tick and the run's own.
`release_by_partition` has a partition timetable, whose runs have a key.

A run that is triggered manually belongs to no day: it reports this and charges nothing. Trigger it with the
parameter `blocks` set to a day, such as 2026-11-20, or give it a partition key.
"""

from airflow.sdk import DAG, CronPartitionTimetable, task, timezone

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from examples.demo import setting

SCHEDULES = {
    "release_by_day": "@daily",
    "release_by_partition": CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
}


@task
def prepare(version: str) -> None:
    """Write the table and open the account, which exist already in production."""
    setting.prepare_visits(version)


for dag_id, schedule in SCHEDULES.items():
    with DAG(
        dag_id,
        description="A private ROC curve of the previous day, from that day's budget",
        doc_md=__doc__,
        schedule=schedule,
        start_date=timezone.datetime(2026, 1, 1),
        catchup=False,
        params={"epsilon": "0.5", "blocks": "interval"},
        tags=["differential privacy"],
    ):
        budget = PrivacyBudgetSensor(
            task_id="budget",
            account=setting.VISITS_ACCOUNT,
            epsilon="{{ params.epsilon }}",
            blocks="{{ params.blocks }}",
            on_exhausted="skip",
            release_task_id="release",
        )
        release = ReleaseDiagnosticsOperator(
            task_id="release",
            account=setting.VISITS_ACCOUNT,
            table=setting.VISITS_TABLE,
            label={"column": "came_back", "positive": "yes", "negative": "no"},
            model={"kind": "columns", "basis": "public", "score": "risk"},
            diagnostics="roc_curve",
            epsilon="{{ params.epsilon }}",
            blocks="{{ params.blocks }}",
            output=setting.VISITS_OUTPUT,
            title="Who comes back, by the risk that the model predicted",
            record="visit",
            runner=setting.RUNNER,
        )
        prepare(setting.VISITS_VERSION) >> budget >> release
