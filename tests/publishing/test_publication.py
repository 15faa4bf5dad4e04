import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.contract.release import Release
from tests.support import publications as made

ROOT = Path(__file__).parents[2]
NAMES = ["roc_curve.parquet", "roc_curve.svg", "roc_curve.png", "report.html"]
COLUMNS = [
    "threshold", "fpr", "tpr", "tpr_lower", "tpr_upper", "tpr_lower_everywhere", "tpr_upper_everywhere",
    "tpr_population_lower", "tpr_population_upper",
    "tpr_population_lower_everywhere", "tpr_population_upper_everywhere",
]  # fmt: skip


@pytest.fixture(scope="module")
def published():
    return made.publish({"roc_curve": made.curve()}, facts=made.facts())


def table_of(files):
    return pq.read_table(io.BytesIO(files["roc_curve.parquet"]))


def test_manifest_describes_every_file(published):
    release, files = published
    assert [entry.name for entry in release.files] == list(files) == NAMES
    for entry in release.files:
        content = files[entry.name]
        assert (entry.size, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert [entry.media_type for entry in release.files] == [
        "application/vnd.apache.parquet",
        "image/svg+xml",
        "image/png",
        "text/html",
    ]


def test_manifest_round_trips_and_keeps_the_facts(published):
    release, _ = published
    assert Release.from_json(release.to_json()) == release
    facts = made.facts()
    assert release.request_sha256 == facts.request.sha256
    assert (release.key, release.charge_id, release.status) == (facts.key, facts.charge_id, "CHARGED")
    assert (release.cost, release.rules, release.assumptions) == (facts.cost, facts.rules, facts.assumptions)
    assert release.results == {"roc_curve": made.curve().to_dict()}
    assert release.statement.startswith("Whoever reads this release")


def test_data_file_round_trips(published):
    curve, table = made.curve(), table_of(published[1])
    assert table.column_names == COLUMNS
    for name in COLUMNS:
        written = table.column(name).to_numpy()
        expected = curve.thresholds if name == "threshold" else curve.published()[name]
        np.testing.assert_array_equal(written, expected)
        assert table.schema.field(name).metadata[b"description"]
    metadata = table.schema.metadata
    assert metadata[b"guarantee"] == b"differentially private"
    assert metadata[b"status"] == b"CHARGED"


@pytest.mark.slow
@pytest.mark.parametrize("curve", [made.undefined_curve(), made.broken_curve()], ids=["undefined", "broken"])
def test_undefined_result_has_the_shape_of_any_other(published, curve):
    release, files = published
    other, others = made.publish({"roc_curve": curve}, facts=made.facts())
    assert list(others) == list(files)
    assert table_of(others).schema == table_of(files).schema
    assert table_of(others).num_rows == table_of(files).num_rows
    assert [entry.media_type for entry in other.files] == [entry.media_type for entry in release.files]
    assert other.statement == release.statement, "the promise does not depend on what was released"
    assert size_of_png(others["roc_curve.png"]) == size_of_png(files["roc_curve.png"])
    assert others["report.html"].count(b"<tr>") == files["report.html"].count(b"<tr>")


def size_of_png(content):
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">II", content[16:24])


def test_pictures_are_well_formed_and_say_what_they_show(published):
    svg = ET.fromstring(published[1]["roc_curve.svg"])
    texts = {element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"ROC curve", "chance", "True positive rate"} <= texts
    assert svg.findtext("{http://www.w3.org/2000/svg}title") == "ROC curve"


def test_pictures_name_no_date_and_no_program(published):
    files = published[1]
    assert b"dc:date" not in files["roc_curve.svg"]
    assert b"Software" not in files["roc_curve.png"]
    assert b"tIME" not in files["roc_curve.png"]


PUBLISH = """
import sys
from pathlib import Path
from tests.support import publications as made
for name, curve in (("ok", made.curve()), ("seeded", made.seeded(made.curve())), ("undefined", made.undefined_curve())):
    release, files = made.publish({"roc_curve": curve}, facts=made.facts(draft=name == "seeded"))
    for file, content in {**files, "release.json": release.to_json().encode()}.items():
        Path(sys.argv[1], f"{name}-{file}").write_bytes(content)
"""

UGLY = """
font.family: serif
font.size: 30
svg.fonttype: path
svg.hashsalt: something else
savefig.dpi: 31
savefig.bbox: tight
savefig.facecolor: red
axes.facecolor: yellow
axes.prop_cycle: cycler('color', ['red'])
path.simplify: False
text.usetex: True
timezone: Asia/Tokyo
"""


def publish_in_a_process(folder, **environment):
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", PUBLISH, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def made_by(process):
    assert process.wait(300) == 0
    return {path.name: path.read_bytes() for path in Path(process.args[-1]).iterdir()}


@pytest.mark.slow
@pytest.mark.verify
def test_two_processes_of_different_surroundings_make_the_same_bytes(tmp_path):
    settings = tmp_path / "matplotlibrc"
    settings.write_text(UGLY)
    plain = publish_in_a_process(tmp_path / "plain", PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    odd = publish_in_a_process(
        tmp_path / "odd",
        PYTHONHASHSEED="2",
        TZ="Asia/Tokyo",
        LC_ALL="C.UTF-8",
        LANG="de_DE.UTF-8",
        MATPLOTLIBRC=str(settings),
        MPLBACKEND="svg",
        SOURCE_DATE_EPOCH="1000000000",
    )
    first, second = made_by(plain), made_by(odd)
    assert len(first) == 15
    assert {name for name in first if first[name] != second.get(name)} == set()


def test_publishing_leaves_the_users_settings_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    made.publish({"roc_curve": made.curve()}, facts=made.facts())
    assert dict(mpl.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or mpl.pyplot.get_fignums() == []


def test_results_must_answer_the_request():
    with pytest.raises(ValueError, match="those of the request: roc_curve"):
        made.publish({}, facts=made.facts())
    with pytest.raises(ValueError, match="other neighbours"):
        made.publish({"roc_curve": replace(made.curve(), neighbours=Neighbours.REPLACE_ONE)}, facts=made.facts())


def test_facts_are_consistent():
    with pytest.raises(ValueError, match="go together"):
        made.facts(charge_id=None)
    with pytest.raises(ValueError, match="exceed"):
        made.facts(cost=Budget(epsilon="1.0000001"))
    assert made.facts(draft=True).status == "UNCHARGED"


def test_nothing_of_this_machine_is_in_the_files(published):
    release, files = published
    everything = b"".join(files.values()) + release.to_json().encode()
    assert str(ROOT).encode() not in everything
    assert sys.prefix.encode() not in everything
    assert b".ttf" not in everything, "no font's path"


def test_manifest_is_strict_json(published):
    def refuse(constant):
        raise AssertionError(constant)

    assert json.loads(published[0].to_json(), parse_constant=refuse)["format"] == 1
