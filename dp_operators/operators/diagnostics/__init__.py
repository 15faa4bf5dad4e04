"""One operator for every kind of diagnostic, with the options of that kind as parameters.

All modules but ``base`` are written by ``python -m tests.support.operator_source``, from the options in
``spark_jobs.contract.options`` and the signature of ``ReleaseDiagnosticsOperator``.
"""
