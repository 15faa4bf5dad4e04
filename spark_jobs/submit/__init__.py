"""The entry point for ``spark-submit``.

The folder contains nothing else, because ``spark-submit`` puts it on the import path: in the package's own folder,
``spark_jobs.statistics`` would hide the standard library's ``statistics``.
"""
