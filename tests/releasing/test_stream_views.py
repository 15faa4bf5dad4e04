"""The report of a stream is made anew after each run, and its failure is none of the stream."""

import numpy as np
import pytest

from dp_operators.releasing.stream_views import refresh_report
from tests.support.stream_files import publish_stream
from tests.support.streams import a_stream


@pytest.mark.slow
@pytest.mark.verify
def test_a_report_is_replaced_and_a_folder_without_a_stream_is_left_alone(tmp_path):
    publish_stream(tmp_path / "stream", a_stream(), np.full((24, 1), 40), parts=2)
    (tmp_path / "stream/report.html").write_text("an old page")
    assert refresh_report(str(tmp_path / "stream"))
    assert (tmp_path / "stream/report.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in (tmp_path / "stream").iterdir()} == {
        "steps",
        "stream.json",
        "report.html",
        "report.npz",
    }
    (tmp_path / "other").mkdir()
    assert not refresh_report(str(tmp_path / "other"))
    assert list((tmp_path / "other").iterdir()) == []
