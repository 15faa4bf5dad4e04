"""One operator for every kind of diagnostic, with the options of that kind as parameters.

The classes are made from the options in ``spark_jobs.contract.options``. ``diagnostics.pyi`` describes them to type
checkers, editors and the documentation; ``python -m tests.support.operator_source`` writes it.
"""

from dp_operators.operators.diagnostic import class_of, operator_of
from spark_jobs.contract.options import DIAGNOSTICS

globals().update({class_of(kind): operator_of(kind, __name__) for kind in DIAGNOSTICS})
