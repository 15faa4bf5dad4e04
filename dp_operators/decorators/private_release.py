"""The decorator ``@task.private_release``: a function returns a request, and the task makes its release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, context_merge
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.tasks.constants import check_given
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

try:
    from airflow.sdk.bases.decorator import determine_kwargs
except ImportError:  # Airflow 3.1
    from airflow.utils.operator_helpers import determine_kwargs  # type: ignore[attr-defined]


class PrivateReleaseDecoratedOperator(DecoratedOperator, ReleaseDiagnosticsOperator):
    """Calls a function for a request when the task runs, and makes the release.

    Args:
        python_callable: returns a request: a ``ReleaseRequest``, its fields, or the path of a JSON or YAML file.
        op_args, op_kwargs: the function's arguments; templated.
        release: every parameter of ``ReleaseDiagnosticsOperator``. Fields of the request that are given here are added
            to those that the function returns. Returned fields are not templated.
    """

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *ReleaseDiagnosticsOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **ReleaseDiagnosticsOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.private_release"
    overwrite_rtif_after_execution = True

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **release: Any,
    ) -> None:
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, **release)

    def check_request(self) -> None:
        """Check the constants that are given to the decorator; the rest is known when the function has returned."""
        if isinstance(self.request, Mapping):
            check_given(self.request)

    def execute(self, context: Context) -> Any:
        """Call the function, and make the release that it returns."""
        self._call(context)
        return super().execute(context)

    def resume(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the function again, as a retry does, and go on with the release that it returns."""
        self._call(context)
        return super().resume(context, event)

    def _call(self, context: Context) -> None:
        context_merge(context, self.op_kwargs)
        given = determine_kwargs(self.python_callable, self.op_args, context)
        returned = self.python_callable(*self.op_args, **given)
        try:
            self.request = combined(self.request, returned)
        except InvalidRequest as refused:
            raise AirflowFailException(str(refused)) from None


def combined(given: Any, returned: Any) -> str | dict[str, Any]:
    """The request that a function returned, with the fields that the decorator was given.

    Raises:
        InvalidRequest: the function returned no request, or a field is given twice.
    """
    fields = given if isinstance(given, Mapping) else {}
    if isinstance(returned, str) and not fields:
        return returned
    if isinstance(returned, ReleaseRequest):
        returned = {name: value for name, value in returned.to_dict().items() if value is not None}
    if not isinstance(returned, Mapping):
        raise InvalidRequest(
            "request", type(returned).__name__,
            "must be what the function of @task.private_release returns: a request or its fields",
            "return a ReleaseRequest, or a dictionary with its fields",
        )  # fmt: skip
    twice = sorted(set(fields) & set(returned))
    if twice:
        raise InvalidRequest(
            twice[0], None, "is given by the decorator, and returned by the function as well", "give it once"
        )
    return {**fields, **returned}


def private_release_task(python_callable: Callable[..., Any] | None = None, **release: Any) -> TaskDecorator:
    """Turn a function that returns a request into a task that makes the release; ``@task.private_release``.

    Args:
        python_callable: the function, if the decorator is used without arguments.
        release: the parameters of the task, as for ``PrivateReleaseDecoratedOperator``.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=PrivateReleaseDecoratedOperator, **release
    )
