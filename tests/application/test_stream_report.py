"""The report of a stream: whole after every run, from what was published alone."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from spark_jobs.application.streams.released import noise_scales, published_segments, segment_history
from spark_jobs.application.streams.report import main, shown_names, write_report
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.contract.stream_states import TOTAL
from spark_jobs.diagnostics.count_stream.page import MAX_ROWS, window_of
from spark_jobs.diagnostics.count_stream.plots import _short
from spark_jobs.diagnostics.count_stream.summary import band_of_sum
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale
from spark_jobs.papers.streams.hierarchy import HierarchyShape
from tests.support.publications import HOSTILE
from tests.support.stream_files import publish_stream
from tests.support.streams import a_stream, of_hierarchy, of_states

REQUESTS = {
    "one": a_stream(),
    "states": of_states(steps=240, method={"kind": "local_level", "season": 24}),
    "grouped": a_stream(steps=240, method="pegasus", budget={"epsilon": "0.1"}),
    "hierarchy": of_hierarchy(steps=240),
    "filtered hierarchy": of_hierarchy(steps=240, method="local_level"),
}


def counts_of(request, steps):
    day = np.arange(steps)[:, None] % 24
    rates = 30 + 25 * np.sin(2 * np.pi * day / 24) + 10 * np.arange(len(request.leaf_names))
    rates[steps // 2 :] *= 3
    return np.random.default_rng(3).poisson(rates)


def page_of(tmp_path, name="states", *, steps=120, parts=3, request=None, noise=None):
    request = request or REQUESTS[name]
    publish_stream(tmp_path / name, request, counts_of(request, steps), parts=parts, noise=noise)
    assert write_report(LocalStore(), str(tmp_path / name))
    return (tmp_path / name / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_a_report_is_one_whole_page_that_loads_nothing(tmp_path, name):
    text = page_of(tmp_path, name, steps=min(120, REQUESTS[name].steps))
    parser = HTMLParser()
    parser.feed(text)
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert not re.search(r"""(?:src|href)=["'](?:https?:|//)""", text)
    assert "nan" not in re.sub(r"<svg.*?</svg>|<style>.*?</style>", "", text, flags=re.DOTALL).lower().split()


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_a_page_that_is_mailed_alone_still_gives_its_newest_counts(tmp_path, name):
    text = page_of(tmp_path, name, steps=min(40, REQUESTS[name].steps))
    [link] = re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]+)" download="[A-Z_]*stream_counts.csv"', text)
    enclosed = pyarrow.csv.read_csv(io.BytesIO(b64decode(link)))
    assert enclosed.column_names == ["begins", "state", "noisy", "estimate", "lower", "upper"]
    segments = sorted((tmp_path / name / "steps").glob("*.csv"))
    steps = pa.concat_tables(map(pyarrow.csv.read_csv, segments))
    shown = set(enclosed["state"].to_pylist())
    noisy = {
        (begins, state): value
        for begins, state, value in zip(*(steps[of].to_pylist() for of in ("begins", "state", "noisy")), strict=True)
        if state in shown
    }
    found = zip(*(enclosed[of].to_pylist() for of in ("begins", "state", "noisy")), strict=True)
    kept = {(begins, state): value for begins, state, value in found}
    assert noisy.items() <= kept.items()
    assert len(kept) == min(40, REQUESTS[name].steps) * len(shown) <= MAX_ROWS


def test_ticks_of_any_size_fit_beside_the_plot():
    assert [_short(value) for value in (0, 0.5, 12_000, 250_000, 1_500_000, 2e10)] == [
        "0",
        "0.5",
        "12,000",
        "250k",
        "1.5M",
        "20G",
    ]


def test_a_report_depends_on_the_released_steps_and_not_on_how_they_were_divided(tmp_path):
    request = a_stream(steps=48, budget={"epsilon": "1e9"})
    texts = [page_of(tmp_path / str(parts), request=request, steps=40, parts=parts) for parts in (1, 8)]
    assert texts[0].replace("1 so far", "8 so far") == texts[1]


def test_a_run_that_is_not_visible_yet_is_not_shown(tmp_path):
    page_of(tmp_path, "states")
    (tmp_path / "states/steps/000000000080.json").unlink()
    assert published_segments(LocalStore(), str(tmp_path / "states")) == (
        "steps/000000000000.parquet", "steps/000000000040.parquet",
    )  # fmt: skip
    write_report(LocalStore(), str(tmp_path / "states"))
    assert "<dt>Released</dt><dd><b>80</b>" in (tmp_path / "states/report.html").read_text()


class Reads(LocalStore):
    """A store that notes the steps that are read."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def read(self, uri, **limit):
        if "/steps/" in uri:
            self.steps.append(int(uri[-20:-8]))
        return super().read(uri, **limit)


@pytest.mark.parametrize("name", ["states", "grouped", "hierarchy"])
def test_a_step_is_not_read_again_and_the_page_is_the_same(tmp_path, name):
    root, request = tmp_path / name, REQUESTS[name]
    publish_stream(root, request, counts_of(request, 48), parts=8)
    later = [(path, path.read_bytes()) for path in sorted((root / "steps").glob("*.json"))[6:]]
    for path, _ in later:
        path.unlink()
    write_report(LocalStore(), str(root))
    for path, content in later:
        path.write_bytes(content)
    store = Reads()
    write_report(store, str(root))
    assert store.steps == [36, 42]
    page = (root / "report.html").read_bytes()
    (root / "report.npz").unlink()
    write_report(store, str(root))
    assert (root / "report.html").read_bytes() == page


@pytest.mark.parametrize("damage", ["another stream", "cut off", "empty"])
def test_what_was_kept_of_another_stream_or_is_damaged_is_read_again(tmp_path, damage):
    page = page_of(tmp_path, "states", parts=4)
    kept = tmp_path / "states/report.npz"
    if damage == "another stream":
        page_of(tmp_path / "other", "states", parts=4, request=of_states(steps=240))
        kept.write_bytes((tmp_path / "other/states/report.npz").read_bytes())
    else:
        kept.write_bytes(kept.read_bytes()[:-9] if damage == "cut off" else b"")
    store = Reads()
    write_report(store, str(tmp_path / "states"))
    assert set(store.steps) == {0, 30, 60, 90}
    assert (tmp_path / "states/report.html").read_text() == page


def test_of_many_counts_the_busiest_are_chosen_again_when_the_stream_has_doubled(tmp_path):
    request, root = of_states(tuple(f"k{place:02d}" for place in range(60)), steps=48), tmp_path / "many"
    counts = np.full((24, 60), 5)
    counts[:12, :30], counts[12:, 30:] = 500, 500
    # chosen at the steps 9 and 21, the first beyond twice 9
    publish_stream(root, request, counts, parts=8)
    manifests = [(path, path.read_bytes()) for path in sorted((root / "steps").glob("*.json"))]
    shown = []
    for path, _ in manifests[3:]:
        path.unlink()
    for path, content in manifests[3:]:
        path.write_bytes(content)
        write_report(LocalStore(), str(root))
        with np.load(root / "report.npz") as kept:
            shown.append(max(kept["names"][1:]) >= "k30")
    assert shown == [False, False, False, False, True]


def test_a_doubling_is_listed_as_a_jump_with_its_band(tmp_path):
    text = page_of(tmp_path, "states", steps=192)
    section = text[text.index("Jumps and drops") : text.index("Every count by itself")]
    assert "from 5 Jan 2026, 00:00" in section
    low, high = re.search(r"by ([+−][0-9,]+) to\s+([+−][0-9,]+)", section).groups()
    assert 0 < int(low.replace(",", "")) < int(high.replace(",", ""))


def test_a_silent_count_is_said_to_be_silent(tmp_path):
    request = of_states(steps=96)
    counts = counts_of(request, 96)
    counts[:, 2] = 0
    publish_stream(tmp_path / "silent", request, counts, parts=2)
    write_report(LocalStore(), str(tmp_path / "silent"))
    text = (tmp_path / "silent/report.html").read_text()
    assert "<dt>Without a signal</dt><dd><b>1 of 5</b>" in text
    assert text.count("cannot be distinguished from 0</td>") == 1


def test_the_total_of_states_without_groups_has_the_band_of_its_sum(tmp_path):
    text = page_of(tmp_path, "states", steps=96)
    assert "Counts: all states together" in text
    noise = laplace_scale(1, 1)
    assert band_of_sum(noise, number=4, confidence=0.9) == 5
    assert "<dt>Noise of a count</dt><dd><b>± 5</b>" in text


def test_the_count_of_filtered_states_is_one_count_of_the_request(tmp_path):
    request = REQUESTS["filtered hierarchy"]
    text = page_of(tmp_path, "filtered hierarchy")
    half = band_of_sum(laplace_scale(request.epsilon_per_row, 1), number=4, confidence=0.9)
    assert f"± {half:,}" in text
    assert "the noisy counts of 4 states together" in text
    assert "The line is an estimate of each step" in text
    assert "The noisy count of a group is the sum of those of its states" in text
    assert TOTAL not in text


def test_texts_of_users_are_escaped_and_seeded_noise_is_stamped(tmp_path):
    request = of_states(keys=("a", HOSTILE.replace("\x00", "")[:200]), steps=48, title=HOSTILE)
    text = page_of(tmp_path, "hostile", request=request, steps=48, noise=SeededNoise(1))
    assert "<script>" not in text
    assert "onerror=alert(1)>" not in text
    assert "NOT PRIVATE" in text


def test_of_many_counts_the_upper_levels_and_the_busiest_are_shown():
    keys = tuple(f"k{i}" for i in range(200))
    parents = {**{key: f"g{i % 4}" for i, key in enumerate(keys)}, **{f"g{i}": "top" for i in range(4)}}
    request = a_stream(states={"column": "ward", "keys": list(keys), "parents": parents}, method="pegasus")
    estimates = np.zeros((3, 205))
    estimates[:, 100:150] = 5
    shown = shown_names(request, estimates)
    assert shown[:5] == (0, 1, 2, 3, 4)
    assert len(shown) == 24
    assert all(100 <= place < 150 for place in shown[5:])


def test_the_scale_of_a_count_is_that_of_the_levels_whose_budget_it_has():
    request = of_hierarchy()
    from spark_jobs.application.streams.advance import mechanism

    shape = mechanism(request)
    assert isinstance(shape, HierarchyShape)
    measured = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0]], dtype=bool)
    scales = noise_scales(request, measured)
    by_levels = [laplace_scale(shape.perturbing(levels), 1) for levels in (1, 2, 3)]
    assert scales[0, :5].tolist() == [by_levels[0], by_levels[0], by_levels[1], by_levels[0], by_levels[0]]
    assert scales[1, 0] == by_levels[2]


@pytest.mark.parametrize(
    ("step", "steps", "width"),
    [
        ("1 hour", 240, 24),
        ("5 minutes", 4000, 12),
        ("1 day", 60, 7),
        ("1 hour", 24, 2),
        ("1 hour", 2, 1),
        ("1 week", 9, 2),
    ],
)
def test_the_windows_of_a_report_are_a_public_choice(step, steps, width):
    assert window_of(a_stream(step=step, steps=steps)) == width


def test_a_folder_without_a_stream_is_refused_in_a_line(tmp_path, capsys):
    with pytest.raises(InvalidRequest, match=r"folder: .*must be the folder of a stream"):
        write_report(LocalStore(), str(tmp_path))
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_parts_that_are_not_refined_are_null_in_the_files_and_their_groups_are_not(tmp_path):
    request = of_hierarchy(budget={"epsilon": "0.5"}, steps=24)
    counts = np.zeros((24, 4), dtype=np.int64)
    counts[:, 0] = 400
    [released] = publish_stream(tmp_path, request, counts, parts=1)
    assert 0 < released.measured.sum() < released.measured.size
    [path] = (tmp_path / "steps").glob("*.parquet")
    table = pq.read_table(path)
    measured = np.array(table["measured"].to_pylist())
    for name in ("noisy", "estimate"):
        assert [value is None for value in table[name].to_pylist()] == (~measured).tolist()
    lines = path.with_suffix(".csv").read_text().splitlines()[1:]
    at = lines[int(np.flatnonzero(~measured)[0])].split(",")
    assert at[3:6] == ["", "false", ""]
    history = segment_history(path.read_bytes(), request)
    np.testing.assert_array_equal(history.measured, released.measured)
    np.testing.assert_array_equal(history.noisy, released.noisy)
