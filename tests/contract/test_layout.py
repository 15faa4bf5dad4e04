"""The layout: different releases never meet, and names cannot leave their folder."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.layout import ApplicationStage, ReleaseLayout, folder_name, read_stage, stage_line

LAYOUT = ReleaseLayout.of("s3://bucket/releases/", "prod/dag/2026-11-21/task/-1", "charge-1")

file_names = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}){0,2}", fullmatch=True)


@given(st.text(min_size=1))
def test_folder_name_is_one_safe_segment(key):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", folder_name(key))
    assert len(folder_name(key)) <= 100


@given(st.text(min_size=1), st.text(min_size=1))
def test_folder_name_differs_for_different_keys(one, other):
    assert (folder_name(one) == folder_name(other)) == (one == other)


def test_folder_name_is_readable():
    assert folder_name("prod/Release DAG/2026").startswith("prod-release-dag-2026-")


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_layouts_of_different_keys_or_charges_share_no_draft(one, other):
    drafts = {ReleaseLayout.of("/r", key, charge).draft for key in (one, other) for charge in ("1", "2")}
    assert len(drafts) == 2 * len({one, other})


@given(file_names)
def test_file_names_stay_in_their_folders_and_clear_of_the_protocols_own(name):
    try:
        published, draft = LAYOUT.file(name), LAYOUT.draft_file(name)
    except ValueError:
        return
    for uri, folder in ((published, LAYOUT.root), (draft, f"{LAYOUT.draft}/files")):
        path = uri.removeprefix("s3://")
        assert posixpath.normpath(path) == path
        assert uri.startswith(f"{folder}/")
    assert published not in (LAYOUT.manifest, LAYOUT.receipt)
    assert not published.startswith(f"{LAYOUT.root}/_draft")


NO_NAMES = ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".hidden", "a b", "a%2e", "a\n", "a\\b", "é"]
RESERVED_NAMES = ["release.json", "receipt.json", "_draft", "_draft/x/draw.json"]


@pytest.mark.parametrize("name", [*NO_NAMES, *RESERVED_NAMES])
def test_file_names_that_could_escape_or_collide_are_refused(name):
    with pytest.raises(ValueError, match="cannot be the name"):
        LAYOUT.file(name)
    with pytest.raises(ValueError, match="cannot be the name"):
        LAYOUT.draft_file(name)


@pytest.mark.parametrize("charge", ["", "../x", "a/b", "a b", ".", "x" * 101])
def test_charge_ids_that_could_escape_are_refused(charge):
    with pytest.raises(InvalidRequest, match="charge"):
        ReleaseLayout.of("/releases", "key", charge)


def test_empty_key_is_refused():
    with pytest.raises(InvalidRequest, match="key"):
        ReleaseLayout.of("/releases", "", "charge")


@pytest.mark.parametrize("stage", list(ApplicationStage))
def test_stage_lines_are_read_back_with_their_nonce_alone(stage):
    line = stage_line(stage, "secret-word")
    assert read_stage(f"  {line}\n", "secret-word") is stage
    assert read_stage(line, "another-word") is None
    assert read_stage(f"{line} 42 rows", "secret-word") is None
    assert read_stage(stage_line(stage, ""), "") is None


@given(st.text())
def test_no_other_line_is_a_stage(line):
    assert read_stage(line, "f3c9a1") is None
