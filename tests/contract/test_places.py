"""One name for each folder and table, and the path that is read made from that name alone."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import TableSource
from tests.support.places import spellings


@pytest.mark.parametrize(
    ("spelling", "identity", "path"),
    [
        *(
            (spelling, "file:///lake/visits", "file:///lake/visits")
            for spelling in (
                "/lake/visits", "/lake/visits/", "/lake//visits", "file:/lake/visits", "file:///lake/visits",
                "file:////lake/visits", "FILE:///lake/visits", "file://localhost/lake/visits",
                "file://LOCALHOST/lake//visits//",
            )
        ),
        *((s, "s3://bucket/t", "s3a://bucket/t") for s in ("s3://bucket/t", "s3a://bucket/t/", "S3N://bucket//t")),
        *(
            (s, "hdfs://name/t", "hdfs://name/t")
            for s in ("hdfs://name/t", "HDFS://Name/t/", "hdfs://name:8020/t", "hdfs://NAME:8020//t")
        ),
        ("hdfs://name:9000/t", "hdfs://name:9000/t", "hdfs://name:9000/t"),
        *((s, "abfss://c@a.net/t", "abfss://c@a.net/t") for s in ("abfs://c@A.net/t", "abfss://c@a.net/t/")),
        ("gs://bucket/t", "gs://bucket/t", "gs://bucket/t"),
        *((s, "s3://bucket/", "s3a://bucket/") for s in ("s3://bucket", "s3a://bucket//")),
        ("/", "file:///", "file:///"),
        ("/lake/Visits of 2026, día=1:+&~@'$!;(x)", *["file:///lake/Visits of 2026, día=1:+&~@'$!;(x)"] * 2),
        *(
            (s, "catalog:spark_catalog.sales.visits", "spark_catalog.sales.visits")
            for s in ("catalog:sales.visits", "catalog:Sales.Visits", "CATALOG:spark_catalog.SALES.visits")
        ),
        ("catalog:lake.a.b.visits", "catalog:lake.a.b.visits", "lake.a.b.visits"),
        ("catalog:lake.sales.tag_events", "catalog:lake.sales.tag_events", "lake.sales.tag_events"),
    ],
)  # fmt: skip
def test_each_place_has_one_name(spelling: str, identity: str, path: str) -> None:
    assert Place.parse(spelling) == Place(identity=identity, path=path)
    assert Place.parse(identity).identity == identity


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("/lake/toy#/../secret", "must not contain any of"),
        ("/lake/toy#", "must not contain any of"),
        ("/lake/toy?version=1", "must not contain any of"),
        ("s3://bucket/toy?x", "must not contain any of"),
        ("/lake/%73ecret", "must not contain any of"),
        ("/lake/100%", "must not contain any of"),
        *((f"/lake/v{character}", "must not contain any of") for character in "*?{}[]\\"),
        ("/lake/toy/../secret", "'.' or '..' as the name of a folder"),
        ("/lake/./secret", "'.' or '..' as the name of a folder"),
        ("s3://bucket/..", "'.' or '..' as the name of a folder"),
        ("lake/visits", "must be an absolute path or a URI"),
        ("visits", "must be an absolute path or a URI"),
        ("file:visits", "must be an absolute path or a URI"),
        ("file:", "must be an absolute path or a URI"),
        ("//host/visits", "must be an absolute path or a URI"),
        ("C:/visits", "must be a path or a URI of"),
        ("webhdfs://name/t", "must be a path or a URI of"),
        ("viewfs://name/t", "must be a path or a URI of"),
        ("file://other/t", "must name no host but this one"),
        ("file://user@localhost/t", "must name no host but this one"),
        ("s3:///t", "must name a bucket"),
        ("s3:/bucket/t", "must name a bucket"),
        ("s3://Bucket/t", "must name a bucket"),
        ("s3://key:secret@bucket/t", "must name a bucket"),
        ("s3://bucket:443/t", "must name a bucket"),
        ("hdfs:///t", "must name a name node"),
        ("hdfs://name:/t", "must name a name node"),
        ("hdfs://name:08020/t", "must name a name node"),
        ("hdfs://name./t", "must name a name node"),
        ("", "must be printable text"),
        (" /lake/t", "must be printable text"),
        ("/lake/t /", "must be printable text"),
        ("/lake/t\n", "must be printable text"),
        ("/lake/t\x00", "must be printable text"),
        ("/lake/\u200bt", "must be printable text"),
        ("/lake/e\u0301t\u00e9", "must be printable text"),
        ("catalog:visits", "must be a name such as"),
        ("catalog:", "must be a name such as"),
        ("catalog:spark_catalog.visits", "must be a name such as"),
        ("catalog:sales..visits", "must be a name such as"),
        ("catalog:lake.sales.visits.branch_audit", "a branch, a tag or a time"),
        ("catalog:lake.sales.visits.TAG_v1", "a branch, a tag or a time"),
        ("catalog:lake.sales.visits.at_timestamp_1700000000000", "a branch, a tag or a time"),
        ("catalog:lake.sales.visits.snapshot_id_12", "a branch, a tag or a time"),
        ("catalog:sales.`visits`", "must be a name such as"),
        ("catalog:sales.x`; drop table y", "must be a name such as"),
        ("catalog:sales.visıts", "must be a name such as"),
    ],
)
def test_what_could_be_understood_in_two_ways_is_refused(text: str, bound: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Place.parse(text, what="table.path")
    assert refused.value.field == "table.path"
    assert bound in refused.value.requirement
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["catalog:sales.visits", "visits", "/lake/toy#/../secret", "/lake/v*"])
def test_a_table_of_no_such_path_is_refused_when_the_request_is_read(path: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^path: "):
        TableSource(path=path, snapshot={"path_version": "v1"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "version", ["", "/v1", "v1/", "..", "v1/../v2", "./v1", "a//b", "v*", "v1#", "v%31", "v1 ", "a\u0308"]
)
def test_a_version_is_a_plain_path_below_its_table(version: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^path_version: "):
        Place.parse("/lake/t").below(version)


def test_a_version_lies_below_its_table() -> None:
    table = TableSource.parse({"path": "/lake/t/", "snapshot": {"path_version": "2026/v=1"}})
    assert table.pinned == Place.parse("/lake/t/2026/v=1")
    assert table.place.contains(table.pinned)
    assert not table.pinned.contains(table.place)
    assert Place.parse("s3a://bucket").below("v1") == Place.parse("s3://bucket/v1")


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("/t", "/t", True),
        ("/t", "file:///t/sub", True),
        ("/", "/t", True),
        ("/t", "/t2", False),
        ("/t/a", "/t/b", False),
        ("s3://b", "s3a://b/t", True),
        ("s3://b/t", "gs://b/t", False),
        ("catalog:db.t", "catalog:spark_catalog.db.t.snapshots", True),
        ("catalog:db.t", "catalog:db.t2", False),
        ("/", "catalog:db.t", False),
    ],
)
def test_places_overlap_where_one_holds_the_other(one: str, other: str, overlap: bool) -> None:
    assert Place.parse(one).overlaps(Place.parse(other)) is overlap
    assert Place.parse(other).overlaps(Place.parse(one)) is overlap


def test_symbolic_links_are_followed_when_a_place_is_resolved_and_refused_where_it_must_be_real(tmp_path: Path) -> None:
    (tmp_path / "secret" / "v1").mkdir(parents=True)
    (tmp_path / "toy").symlink_to(tmp_path / "secret")
    (tmp_path / "odd#").mkdir()
    (tmp_path / "even").symlink_to(tmp_path / "odd#")
    toy, secret = Place.parse(str(tmp_path / "toy" / "v1")), Place.parse(str(tmp_path / "secret" / "v1"))
    assert toy != secret
    assert toy.resolved() == secret == secret.resolved()
    secret.require_real()
    with pytest.raises(InvalidRequest, match="symbolic link"):
        toy.require_real()
    with pytest.raises(InvalidRequest, match="must not contain any of"):
        Place.parse(str(tmp_path / "even")).resolved()
    away = Place.parse("s3://bucket/t")
    assert away.resolved() == away
    away.require_real()


@given(text=spellings())
def test_a_name_is_its_own_name_and_holds_nothing_that_a_reader_might_change(text: str) -> None:
    try:
        place = Place.parse(text)
    except InvalidRequest:
        return
    assert Place.parse(place.identity) == place == Place.parse(place.path)
    parts = urlsplit(place.identity)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == place.identity, "nothing is a query or a fragment"
    assert not {".", ".."} & set(parts.path.split("/"))
    assert "//" not in parts.path


@given(text=spellings(), version=st.text(st.sampled_from("v1=/.-#%?*a é"), min_size=1, max_size=8))
def test_versions_lie_below_whatever_they_are_called(text: str, version: str) -> None:
    try:
        place = Place.parse(text)
        pinned = place.below(version)
    except InvalidRequest:
        return
    assert pinned != place
    assert place.contains(pinned)
    assert Place.parse(pinned.identity) == pinned
