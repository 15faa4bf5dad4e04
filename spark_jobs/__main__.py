"""The command line ``python -m spark_jobs REQUEST --output URI``."""

from spark_jobs.application.main import main as main

if __name__ == "__main__":
    raise SystemExit(main())
