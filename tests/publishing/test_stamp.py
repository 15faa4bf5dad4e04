import io
from dataclasses import replace

import matplotlib.image
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.publishing import stamp
from tests.support import publications as made


def files_of(curve, *, draft):
    return made.publish({"roc_curve": curve}, facts=made.facts(draft=draft))


def reddish(png):
    pixels = matplotlib.image.imread(io.BytesIO(png))
    red, green, blue = (pixels[..., i] for i in range(3))
    return float(((red > 0.6) & (red - green > 0.25) & (red - blue > 0.2)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("draft", [False, True])
def test_seeded_release_is_stamped_everywhere(draft):
    release, files = files_of(made.seeded(made.curve()), draft=draft)
    assert release.guarantee == NOT_PRIVATE
    assert release.statement.startswith("NOT PRIVATE")
    assert b">NOT PRIVATE</text>" in files["roc_curve.svg"]
    assert reddish(files["roc_curve.png"]) > 0.03, "large and red across the picture"
    page = files["report.html"].decode()
    assert '<aside class="mark alarm"><strong>NOT PRIVATE</strong>' in page
    assert 'class="watermark"' in page
    assert ">NOT PRIVATE</text>" in page, "across the plot in the page"
    assert "(NOT PRIVATE" in page.split("</title>")[0]
    assert "Differentially private release" not in page
    metadata = pq.read_schema(io.BytesIO(files["roc_curve.parquet"])).metadata
    assert metadata[b"guarantee"] == b"NOT PRIVATE"


def test_private_release_carries_no_mark():
    release, files = files_of(made.curve(), draft=False)
    assert release.guarantee == PRIVATE
    assert reddish(files["roc_curve.png"]) == 0
    for name in ("roc_curve.svg", "report.html"):
        assert b"NOT PRIVATE" not in files[name]
        assert b"UNCHARGED" not in files[name]


def test_draft_is_marked_uncharged_but_not_across():
    release, files = files_of(made.curve(), draft=True)
    assert release.status == "UNCHARGED"
    assert b"UNCHARGED draft" in files["roc_curve.svg"]
    page = files["report.html"].decode()
    assert '<aside class="mark caution"><strong>UNCHARGED</strong>' in page
    assert 'class="watermark"' not in page
    metadata = pq.read_schema(io.BytesIO(files["roc_curve.parquet"])).metadata
    assert metadata[b"status"] == b"UNCHARGED"


@pytest.mark.parametrize("said", ["NOT PRIVATE", "", "private", "Differentially private"])
def test_anything_but_the_word_itself_is_not_private(said):
    results = [made.curve(), replace(made.curve(), guarantee=said)]
    assert stamp.guarantee(results) == NOT_PRIVATE


def test_guarantee_of_nothing_is_none():
    assert stamp.guarantee([]) == NOT_PRIVATE
    assert stamp.guarantee([made.curve()]) == PRIVATE
