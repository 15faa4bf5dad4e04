"""A release, a stream and the pages on S3, Google and Azure, each on loopback, as on a folder."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeState
from dp_operators.plugins import releases
from dp_operators.releasing import ChargedRequest, ReleaseClosed, ReleaseFailed, give_back
from dp_operators.releasing.errors import UNCHARGED
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import folder_name, release_folder
from spark_jobs.contract.store.objects import open_store
from tests.releasing.test_real_application import good_rows, write_table
from tests.support.accounts import open_bound
from tests.support.object_stores import CLOUDS, FAKE_CLOUDS, Cloud, azurite, cloud, signed_in
from tests.support.release_lab import HereRunner, Lab, NoRunner, make_request
from tests.support.stream_lab import KEY as STREAM
from tests.support.stream_lab import StreamLab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=FAKE_CLOUDS)
def server(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest.fixture
def output(server: Cloud, monkeypatch: pytest.MonkeyPatch, request: Any) -> Iterator[str]:
    server.proxy.before = server.proxy.after = lambda _: True
    with signed_in(server, monkeypatch):
        yield f"{server.folder}/{request.node.name.partition('[')[0]}"


def opened_for(lab: Lab, output: str) -> Lab:
    """The lab, with releases that go to ``output``."""
    ledger = lab.ledger()
    ledger.bind_outputs("people", [output], actor="admin", reason="made for this test")
    ledger.close()
    lab.output, lab.request = output, make_request(output)
    return lab


def test_release_is_published_once_and_its_pages_read_it_from_the_store(output: str, tmp_path: Path) -> None:
    lab = opened_for(Lab(tmp_path), output)
    published = lab.release(runner=HereRunner())
    assert published.uri == release_folder(output, lab.key)
    again = lab.release(runner=NoRunner())
    assert (again.uri, again.adopted) == (published.uri, True)
    [charge] = lab.charges()
    manifest = open_store(output).read(f"{published.uri}/release.json") or b""
    assert (charge.state, charge.manifest_sha256) == (ChargeState.COMMITTED, hashlib.sha256(manifest).hexdigest())

    ledger = lab.ledger()
    page = releases.release_page("ledger", ledger, "people", lab.key, run="", nonce="n")
    assert published.uri in page
    name = Release.from_json(manifest).files[0].name
    served = releases.release_file(ledger, "people", lab.key, name)
    assert served.content == open_store(output).read(f"{published.uri}/{name}")
    ledger.close()


def test_attempt_killed_after_its_draw_is_taken_up_and_drawn_once(output: str, tmp_path: Path) -> None:
    lab = opened_for(Lab(tmp_path), output)

    class Died(HereRunner):
        def run(self, submission: Any, progress: Any) -> None:
            super().run(submission, progress)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.release(runner=Died())
    lab.release(runner=NoRunner())
    names = list(open_store(output).names(output))
    assert len([name for name in names if name.endswith("/draw.json")]) == 1
    assert len([name for name in names if name.endswith("/release.json") and "/_draft/" not in name]) == 1
    assert lab.states() == ["committed"]


def test_reservation_is_given_back_by_a_tombstone(output: str, tmp_path: Path) -> None:
    lab = opened_for(Lab(tmp_path), output)

    class Killed(HereRunner):
        def run(self, submission: Any, progress: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.release(runner=Killed())
    ledger = lab.ledger()
    give_back(ChargedRequest.of(lab.request, ledger, lab.key), reason="for this test", actor="admin")
    ledger.close()
    assert lab.states() == ["burnt"]  # it had started
    with pytest.raises(ReleaseClosed):
        lab.release(runner=NoRunner())


def test_stream_is_a_chain_of_objects(output: str, tmp_path: Path) -> None:
    lab = StreamLab(tmp_path, output=output)
    lab.advance(3)
    lab.advance(3)
    lab.advance(5)
    store, root = open_store(output), f"{output}/{folder_name(STREAM)}"
    ledger = lab.ledger()
    recorded = ledger.recorded_steps(lab.charge().id)
    assert [(one.first, one.steps) for one in recorded] == [(0, 3), (3, 2)]
    assert ledger.verification().findings == ()
    ledger.close()
    for one in recorded:
        content = store.read(f"{root}/_draft/{lab.charge().id}/steps/{one.first:012d}") or b""
        assert hashlib.sha256(content).hexdigest() == one.object_sha256
    manifests = sorted(name for name in store.names(f"{root}/steps") if name.endswith(".json"))
    places = [json.loads(store.read(f"{root}/steps/{name}") or b"") for name in manifests]
    assert [(place["first"], place["steps"]) for place in places] == [(0, 3), (3, 2)]


def test_store_that_cannot_be_reached_is_a_failure_before_a_charge(
    output: str, server: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = opened_for(Lab(tmp_path), output)
    server.proxy.before = lambda request: request["method"] not in ("PUT", "POST")
    monkeypatch.setattr("asyncio.sleep", _at_once)
    monkeypatch.setattr("azure.storage.blob._shared.policies_async.ExponentialRetry.get_backoff_time", lambda *_: 0.01)
    with pytest.raises(ReleaseFailed, match=rf"^the output store failed \(\w+\); {UNCHARGED}$") as failed:
        lab.release(runner=NoRunner())
    assert failed.value.retryable
    assert not lab.charges()


async def _at_once(*_: object) -> None:
    return None


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.parametrize("kind", CLOUDS[1:])
def test_command_releases_a_table_by_the_real_application(kind: str, tmp_path: Path) -> None:
    if kind == "azurite" and azurite() is None:
        pytest.skip("Azurite is not installed: npm install azurite")
    table = write_table(tmp_path / "visits", good_rows())
    with cloud(kind, tmp_path / kind) as started:
        lab, output = Lab(tmp_path), f"{started.folder}/releases"
        ledger = lab.ledger()
        open_bound(ledger, "visits", table=table, output=output, epsilon=1)
        ledger.close()
        place = {"path": table, "snapshot": {"path_version": "v1"}}
        (tmp_path / "request.json").write_text(make_request(output, account="visits", table=place).to_json())
        command = [sys.executable, "-m", "dp_operators.cli", "run", f"{tmp_path}/request.json", "--master", "local[1]"]
        done = subprocess.run(
            [*command, "--private-dir", f"{tmp_path}/private"],
            env={**os.environ, **started.variables, "DP_LEDGER_URL": lab.url},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{output}/")
    [charge] = lab.ledger().history("visits")
    assert charge.state is ChargeState.COMMITTED
