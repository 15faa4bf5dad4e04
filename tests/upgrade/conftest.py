"""The store of the first release behind a small S3."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest

from tests.support.first_release import stored_objects
from tests.support.s3_server import S3, s3_server


@pytest.fixture
def first_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """The store of the first release, under its own URIs."""
    fsspec.filesystem("s3").clear_instance_cache()
    with s3_server() as server:
        server.objects.update(stored_objects())
        settings = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}
        for name, value in {**settings, "ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield server
    fsspec.filesystem("s3").clear_instance_cache()
