"""Templates render as text, whatever the DAG says, and what is given has a value."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from tests.support.airflow import make_context

GROUPED = {"kind": "by_group", "group_by": "r", "kinds": ["auc"]}


def rendered(native: bool, **params: Any) -> dict[str, Any]:
    with DAG("visits", schedule=None, render_template_as_native_obj=native):
        task = ReleaseDiagnosticsOperator(
            task_id="release",
            account="visits",
            epsilon="{{ params.epsilon }}",
            title="{{ params.title }}",
            table={"path": "/lake/visits", "snapshot": {"path_version": "{{ params.version }}"}},
            diagnostics=[
                {
                    "kind": "by_group",
                    "group_by": "r",
                    "kinds": ["auc"],
                    "groups": ["{{ params.first }}", "{{ params.second }}"],
                }
            ],
        )
    given = {"epsilon": "1", "title": "2024", "version": "20240131", "first": "2024_01", "second": "0x1F", **params}
    task.render_template_fields({**make_context(), "params": given})
    assert isinstance(task.request, dict)
    return task.request


@pytest.mark.parametrize("native", [True, False])
def test_templates_render_as_they_are_written(native: bool) -> None:
    request = rendered(native)
    assert request["diagnostics"][0]["groups"] == ["2024_01", "0x1F"]
    assert request["table"]["snapshot"] == {"path_version": "20240131"}
    assert (request["title"], request["budget"]) == ("2024", {"epsilon": "1"})


@pytest.mark.parametrize("native", [True, False])
def test_a_parameter_that_renders_to_none_is_refused(native: bool) -> None:
    with pytest.raises(AirflowFailException, match=r"^title: .*is given, and renders to None; give it a value"):
        rendered(native, title=None)
    with pytest.raises(AirflowFailException, match=r"^table\.snapshot\.path_version: "):
        rendered(native, version=None)


def test_a_sensor_renders_as_text_too() -> None:
    with DAG("visits", schedule=None, render_template_as_native_obj=True):
        sensor = PrivacyBudgetSensor(task_id="sensor", account="{{ params.account }}", epsilon="0.1")
    sensor.render_template_fields({**make_context(), "params": {"account": "2024"}})
    assert sensor.account == "2024"
