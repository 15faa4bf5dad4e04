"""The application, started by ``spark-submit``; the same as ``python -m spark_jobs``."""

from spark_jobs.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
