"""A private ROC curve of a health insurance experiment, and a second one that the budget does not allow.

The table holds person-years of the RAND Health Insurance Experiment, the outcome is whether the person saw a doctor in
that year, and the scores are those of a public logistic model, fitted on other people. What is protected is one
person-year: a person who stayed for several years is protected year by year, not as a whole.

The account may spend epsilon 1.5. The first release costs 1; the sensor then holds the second one back, like every
release on the following days, until somebody raises the cap.
"""

from airflow.sdk import DAG, task, timezone

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from examples.demo import setting

with DAG(
    "release_diagnostics",
    description="A private ROC curve a day, as long as the budget lasts",
    doc_md=__doc__,
    schedule="@daily",
    start_date=timezone.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={"epsilon": setting.EPSILON},
    tags=["differential privacy"],
) as dag:

    @task
    def prepare() -> None:
        """Write the table and open the account, which exist already in production."""
        setting.prepare()

    first_sensor = PrivacyBudgetSensor(
        task_id="budget_for_first",
        account=setting.ACCOUNT,
        epsilon="{{ params.epsilon }}",
        on_exhausted="skip",
        release_task_id="release_first",
    )
    first_release = ReleaseDiagnosticsOperator(
        task_id="release_first",
        account=setting.ACCOUNT,
        table=setting.TABLE,
        label="any_visit",
        model=setting.SCORES,
        diagnostics="roc_curve",
        epsilon="{{ params.epsilon }}",
        output=setting.OUTPUT,
        title="Any visit to a doctor within the year",
        record="person-year",
        runner=setting.RUNNER,
    )
    second_sensor = PrivacyBudgetSensor(
        task_id="budget_for_second",
        account=setting.ACCOUNT,
        epsilon="{{ params.epsilon }}",
        on_exhausted="skip",
        release_task_id="release_second",
    )
    second_release = ReleaseDiagnosticsOperator(
        task_id="release_second",
        account=setting.ACCOUNT,
        table=setting.TABLE,
        label="any_visit",
        model=setting.SCORES,
        diagnostics="roc_curve",
        epsilon="{{ params.epsilon }}",
        output=setting.OUTPUT,
        title="Any visit to a doctor within the year, once more",
        record="person-year",
        runner=setting.RUNNER,
    )

    prepare() >> first_sensor >> first_release >> second_sensor >> second_release
