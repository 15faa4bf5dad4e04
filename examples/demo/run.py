"""The demo's DAG run: a metadata database of its own, and the example DAG, really run, in this process.

``python -m examples.demo`` starts this in a process of its own, with everything Airflow is to know in the
environment, and shows what it logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

DAG_ID = "release_diagnostics"
DAGS = Path(__file__).parents[2] / "dags"


def main() -> int:
    """Run the DAG once; 0 if its run succeeded."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    dag = DagBag(dag_folder=DAGS / f"{DAG_ID}.py").dags[DAG_ID]
    run = dag.test()
    return 0 if str(run.state) == "success" else 1


if __name__ == "__main__":
    sys.exit(main())
