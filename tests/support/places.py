"""Texts that people and attackers write for one folder."""

from __future__ import annotations

from hypothesis import strategies as st

_SCHEMES = ["", "file:", "file://", "file://localhost", "FILE://", "s3://bucket", "s3a://bucket", "hdfs://Name:8020",
            "hdfs://name", "hdfs://name:9000", "abfs://box@Name.net", "gs://bucket"]  # fmt: skip
_SEGMENTS = ["toy", "secret", "Toy", "v=1", ".", "..", "", "", "a b", " ", "día", "di\u0301a", "x:y", "+", "~", "$HOME",
             "#", "toy#", "?q", "%2e%2e", "%73ecret", "*", "{toy,secret}", "[ab]", "\\", "\t", "@", "&", ";p=1", ",",
             "'", '"', "|", "^", "`", "<", "=", "!"]  # fmt: skip


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A scheme and a few segments, of which some are harmless, most legal somewhere, and a few neither."""
    segments = draw(st.lists(st.sampled_from(_SEGMENTS) | st.text(max_size=6), max_size=4))
    start, end = draw(st.sampled_from(["/", "//", ""])), draw(st.sampled_from(["", "/"]))
    return f"{draw(st.sampled_from(_SCHEMES))}{start}{'/'.join(segments)}{end}"
