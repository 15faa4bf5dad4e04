"""A private model of a health insurance experiment, and private diagnostics of it, under one account.

The table holds all person-years of the RAND Health Insurance Experiment; the outcome is whether the person saw a doctor
in that year. The first release fits a logistic model to these rows with noise, for epsilon 1. Its coefficients are
private, so they may score the same rows that they were fitted to: the second release computes the model's calibration
and its ROC curve from the same table, for epsilon 0.5. Both are paid for by one account, which may spend 2.

The second release takes its model from the result of the first. The model is read when the task runs, and used only if
the ledger has committed the release that contains it.
"""

from airflow.sdk import DAG, task, timezone

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from examples.demo import setting

with DAG(
    "fit_then_diagnose",
    description="Fit a model privately, then diagnose it on the same rows, as long as the budget lasts",
    doc_md=__doc__,
    schedule="@monthly",
    start_date=timezone.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={"epsilon_of_fit": "1", "epsilon_of_diagnostics": "0.5"},
    tags=["differential privacy"],
) as dag:

    @task
    def prepare() -> None:
        """Write the table and open the account, which exist already in production."""
        setting.prepare_fit()

    budget_for_fit = PrivacyBudgetSensor(
        task_id="budget_for_fit",
        account=setting.FIT_ACCOUNT,
        epsilon="{{ params.epsilon_of_fit }}",
        on_exhausted="skip",
        release_task_id="fit",
    )
    fit = ReleaseDiagnosticsOperator(
        task_id="fit",
        account=setting.FIT_ACCOUNT,
        table=setting.FIT_TABLE,
        label="any_visit",
        diagnostics=[setting.FIT],
        epsilon="{{ params.epsilon_of_fit }}",
        output=setting.FIT_OUTPUT,
        title="What goes with a visit to a doctor within the year",
        record="person-year",
        runner=setting.RUNNER,
    )
    budget_for_diagnostics = PrivacyBudgetSensor(
        task_id="budget_for_diagnostics",
        account=setting.FIT_ACCOUNT,
        epsilon="{{ params.epsilon_of_diagnostics }}",
        on_exhausted="skip",
        release_task_id="diagnose",
    )
    diagnose = ReleaseDiagnosticsOperator(
        task_id="diagnose",
        account=setting.FIT_ACCOUNT,
        table=setting.FIT_TABLE,
        label="any_visit",
        model=fit.output,
        diagnostics=["calibration", "roc_curve"],
        epsilon="{{ params.epsilon_of_diagnostics }}",
        output=setting.FIT_OUTPUT,
        title="How well the private model predicts a visit to a doctor",
        record="person-year",
        runner=setting.RUNNER,
    )

    prepare() >> budget_for_fit >> fit >> budget_for_diagnostics >> diagnose
