"""A server of a federated release: it adds up what the silos share, and the noise, and sees no silo's counts.

The administrator has registered the release before, under the name in the environment variable DP_DEMO_FEDERATION, with
``python -m spark_jobs.federation join --receipts``. Each server has a deployment of its own.
"""

from airflow.sdk import DAG

from dp_operators.operators.federation_server import FederationServerOperator
from examples.demo import setting

with DAG(
    "federated_server",
    description="A server of a federated release",
    doc_md=__doc__,
    schedule=None,
    tags=["differential privacy"],
) as dag:
    FederationServerOperator(task_id="serve", federation=setting.FEDERATION)
