"""A silo's part in a federated release: a ROC curve of the patients of all silos; each silo counts its own patients.

The administrator has registered the release before, under the name in the environment variable DP_DEMO_FEDERATION, with
``python -m spark_jobs.federation join --account``. Each silo has a deployment of its own: its lake, its ledger, its
store. Here the silos are insurance plans, whose person-years of the RAND Health Insurance Experiment are three tables.
"""

from airflow.sdk import DAG, task

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from examples.demo import setting

with DAG(
    "federated_silo",
    description="A silo of a federated release",
    doc_md=__doc__,
    schedule=None,
    tags=["differential privacy"],
) as dag:

    @task
    def prepare() -> None:
        """Write this silo's table and open its account, which exist already in production."""
        setting.prepare_silo()

    budget = PrivacyBudgetSensor(
        task_id="budget",
        account=setting.SILO_ACCOUNT,
        epsilon=setting.EPSILON,
        on_exhausted="fail",
        release_task_id="release",
        federation=setting.FEDERATION,
    )
    release = ReleaseDiagnosticsOperator(
        task_id="release",
        account=setting.SILO_ACCOUNT,
        table=setting.SILO_TABLE,
        label="any_visit",
        model=setting.MODEL,
        diagnostics=setting.SILO_DIAGNOSTICS,
        epsilon=setting.EPSILON,
        output=setting.SILO_OUTPUT,
        federation=setting.FEDERATION,
        runner=setting.RUNNER,
    )

    prepare() >> budget >> release
