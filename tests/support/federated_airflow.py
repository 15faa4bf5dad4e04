"""The Airflow of one party of a federated release, which stays up while its task is killed again and again.

``python -m tests.support.federated_airflow DAG_ID FILE POINT...`` loads Airflow and the DAG once. For each failpoint,
and at last for none, a fork of this process runs the DAG; the file has a line for each, ``POINT CODE``.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from examples.demo.run import DAGS
from spark_jobs.contract.store.failpoints import VARIABLE


def main(dag_id: str, file: str, *points: str) -> int:
    """Run the DAG once for each failpoint, and once without; the last run's exit code."""
    from airflow import settings
    from airflow.utils.db import initdb

    from tests.support.dag_bags import DagBag

    initdb()
    dag = DagBag(dag_folder=DAGS / f"{dag_id}.py").dags[dag_id]
    settings.dispose_orm()
    code = 1
    for point in [*points, ""]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.environ[VARIABLE] = point
            os._exit(_run(dag))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with Path(file).open("a") as lines:
            lines.write(f"{point or 'none'} {code}\n")
    return code


def _run(dag: object) -> int:
    from airflow import settings

    try:
        settings.reconfigure_orm()
        return 0 if str(dag.test().state) == "success" else 1  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
