"""Renders the templates of tasks as text, and refuses a parameter that renders to nothing.

With ``render_template_as_native_obj`` Airflow would turn ``"0x1F"`` into the number 31 and ``"2024_01"`` into 202401.
The keys of groups would change on the way, and their releases would be paid for and empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from dp_operators.tasks.constants import TEMPLATE_MARKS, is_constant
from dp_operators.tasks.errors import as_airflow_errors
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context


class TextTemplates(BaseOperator):
    """An operator whose templates render as text; a given parameter that renders to nothing is refused."""

    def _render(self, template: Any, context: Any, dag: Any = None) -> Any:
        from airflow.sdk.definitions.context import render_template_to_string

        return render_template_to_string(template, context)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        *done: Any,
        **named: Any,  # Airflow names its arguments where it renders a mapped task
    ) -> None:
        from jinja2.nativetypes import NativeEnvironment

        dag = self.get_dag()
        if isinstance(jinja_env, NativeEnvironment) and dag is not None:
            jinja_env = dag.get_template_env(force_sandboxed=True)
        written = {name: getattr(parent, name, None) for name in template_fields}
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, *done, **named)
        with as_airflow_errors():
            for name, value in written.items():
                require_rendered(value, getattr(parent, name, None), "" if name == "request" else name)


def require_rendered(written: Any, rendered: Any, field: str) -> None:
    """Refuse a template or another task's result that rendered to None.

    Raises:
        InvalidRequest: a value rendered to None; the message names the field.
    """
    if isinstance(written, Mapping) and isinstance(rendered, Mapping):
        for name, value in written.items():
            require_rendered(value, rendered.get(name), f"{field}.{name}".lstrip("."))
        return
    if isinstance(written, (list, tuple)) and isinstance(rendered, (list, tuple)):
        for value, result in zip(written, rendered, strict=False):
            require_rendered(value, result, field)
        return
    whole = isinstance(written, str) and written.strip().startswith(TEMPLATE_MARKS[0]) and written.count("{{") == 1
    if not is_constant(written) and (rendered is None or (whole and rendered == "None")):
        raise InvalidRequest(
            field or "request", written if isinstance(written, str) else None, "is given, and renders to None",
            "give it a value, or leave it out",
        )  # fmt: skip
