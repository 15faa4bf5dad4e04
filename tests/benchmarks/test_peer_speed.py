"""The benchmark of other libraries' speed times releases of the table's own counts, in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peer_speed import Peer, write_places
from benchmarks.peers import OURS

pytestmark = pytest.mark.spark


def test_a_library_releases_when_it_is_told_to_and_counts_of_another_table_are_refused(tmp_path):
    table = write_places(tmp_path / "table", 40_000)
    with Peer(library=OURS, python=Path(sys.executable), table=table, rows=40_000) as peer:
        assert 0 < peer.release() < peer.first
        peer.rows = 41_000
        with pytest.raises(RuntimeError, match=f"{OURS}: 1024 groups with .* rows in all"):
            peer.release()


def test_a_process_that_ends_is_said_to_have_ended(tmp_path):
    peer = Peer(library="no library", python=Path(sys.executable), table=tmp_path, rows=1)
    with pytest.raises(RuntimeError, match="no library ended with 1"):
        peer.__enter__()
