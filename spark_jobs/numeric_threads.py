"""Run the linear algebra of a diagnostic on one thread, whatever the environment says.

Matrices here have a few hundred rows. On those, BLAS threads wait for each other longer than they compute: with as many
threads as processors, a ROC curve costs many times its processor time, and more where processors are shared. So a
measurement and its summary run on one thread, and restore the number of threads afterwards, also where several overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  # it brings a BLAS of its own, which must be loaded to be seen
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class _Limit:
    """The limit of the process: set by the first call that begins, and taken off by the last one that ends."""

    def __init__(self) -> None:
        self._lock, self._calls = Lock(), 0
        self._set: Any = None

    def begin(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._set = _blas().limit(limits=1)
            self._calls += 1

    def end(self) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0 and self._set is not None:
                # the thread that began may not be this one, and only that one could restore what it has set
                _clear()
                self._set.restore_original_limits()
                _clear()


def _clear() -> None:
    for library in _blas().lib_controllers:
        getattr(library, "clear_controlling_thread", lambda **_: None)(force=True)


_LIMIT = _Limit()


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, wrapped so that BLAS has one thread during its calls."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        _LIMIT.begin()
        try:
            return function(*args, **kwargs)
        finally:
            _LIMIT.end()

    return limited
