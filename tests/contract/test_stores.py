"""Stores: an object is created once, complete, and nothing else is ever readable."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.conditional_put import ConditionalPutStore
from spark_jobs.contract.store.objects import LocalStore, check_store, local_path, open_store
from tests.support.s3_server import s3_server

BLOBS = "abfss://container@account.dfs.core.windows.net"


@pytest.fixture(params=["nameless", "hidden"])
def local(request, monkeypatch):
    """A local store, on file systems that know nameless files and on those that do not."""
    if request.param == "hidden":
        monkeypatch.delattr(os, "O_TMPFILE")
    return LocalStore()


@pytest.fixture
def s3(monkeypatch):
    import fsspec

    fsspec.filesystem("s3").clear_instance_cache()
    with s3_server() as server:
        point_at(server, monkeypatch)
        yield server
    fsspec.filesystem("s3").clear_instance_cache()


def point_at(server, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)


def test_local_second_create_changes_nothing(local, tmp_path):
    uri = f"file://{tmp_path}/object.json"
    assert local.create(uri, b"first")
    assert not local.create(uri, b"second")
    assert local.read(uri) == b"first"


def test_local_create_leaves_nothing_else_behind(local, tmp_path):
    local.create(f"{tmp_path}/object.json", b"first")
    local.create(f"{tmp_path}/object.json", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["object.json"]


def test_local_object_is_readable_by_whoever_may_read_the_folder(local, tmp_path):
    tmp_path.chmod(0o755)
    local.create(f"{tmp_path}/object.json", b"")
    assert (tmp_path / "object.json").stat().st_mode & 0o777 == 0o644


def _killed_while_linking(folder: str, hidden: bool) -> None:
    if hidden:
        del os.O_TMPFILE
    os.link = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    LocalStore().create(f"{folder}/draw.json", b"a draw that lost")


@pytest.mark.parametrize("hidden", [False, True])
def test_killed_create_leaves_nothing_that_others_can_read(hidden, tmp_path):
    worker = multiprocessing.get_context("fork").Process(target=_killed_while_linking, args=(str(tmp_path), hidden))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert not (tmp_path / "draw.json").exists()
    left = list(tmp_path.iterdir())
    assert len(left) == hidden
    assert all(path.stat().st_mode & 0o077 == 0 for path in left)


def _race(uri: str, mine: bytes, barrier, wins) -> None:
    store = LocalStore()
    for round_ in range(20):
        barrier.wait()
        if store.create(f"{uri}-{round_}", mine * 1000):
            wins.put((round_, mine))


def test_local_create_raced_by_processes_is_won_once(tmp_path):
    context = multiprocessing.get_context("fork")
    racers = 4
    barrier, wins = context.Barrier(racers), context.Queue()
    uri = f"{tmp_path}/deep/er/object"
    workers = [context.Process(target=_race, args=(uri, b"%d" % n, barrier, wins)) for n in range(racers)]
    for worker in workers:
        worker.start()
    winners = dict(wins.get(timeout=60) for _ in range(20))
    for worker in workers:
        worker.join()
    assert wins.empty()
    assert sorted(winners) == list(range(20))
    assert all(LocalStore().read(f"{uri}-{n}") == mine * 1000 for n, mine in winners.items())


def _fill(uri: str, outcome) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        LocalStore().create(uri, b"x" * 5000)
    except OSError as error:
        outcome.put(type(error).__name__)


def test_local_full_disk_is_an_oserror_and_no_object(tmp_path):
    context = multiprocessing.get_context("fork")
    outcome = context.Queue()
    worker = context.Process(target=_fill, args=(f"{tmp_path}/object", outcome))
    worker.start()
    assert outcome.get(timeout=30) == "OSError"
    worker.join()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "path"),
    [("/a b/c", "/a b/c"), ("file:///a%20b/c", "/a b/c"), ("file://localhost/a", "/a"), ("/a%20b", "/a%20b")],
)
def test_local_path_of_uris_and_paths(uri, path):
    assert local_path(uri) == Path(path)


@pytest.mark.parametrize(
    "uri",
    [
        "memory://releases",
        "http://host/releases",
        "https://host/releases",
        "ftp://host/x",
        "hdfs://host/x",
        "releases",
        "./releases",
        "file:releases",
        "file://host/releases",
        "file:///releases#x",
        "s3://bucket/releases?versionId=1",
        "s3:///releases",
        "gs:///releases",
        "az://container/releases",
        "wasbs://container@account.blob.core.windows.net/releases",
        "abfss://container/releases",
        "abfss://container@account/releases",
        "abfss://container@account.blob.core.windows.net/releases",
        "abfss://account.dfs.core.windows.net/container",
        "",
    ],
)
def test_stores_without_exclusive_create_are_refused_in_one_line(uri):
    with pytest.raises(InvalidRequest) as refused:
        open_store(uri)
    assert str(refused.value).startswith("output: ")
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_read_as_empty_where_its_writer_is_not_trusted(local, tmp_path):
    """A link to /dev/zero has no end, and one to somebody's file no business here."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, place in (("zero", "/dev/zero"), ("link", tmp_path / "secret"), ("loop", tmp_path / "loop")):
        (tmp_path / name).symlink_to(place)
    for name in ("zero", "link", "loop", "folder", "pipe"):
        assert local.read(f"{tmp_path}/{name}", limit=10) == b""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    assert len(local.read(f"{tmp_path}/sparse", limit=1000)) == 1001


def test_check_store_leaves_no_trace(tmp_path):
    check_store(f"file://{tmp_path}/releases")
    assert list((tmp_path / "releases").iterdir()) == []


def test_checks_of_one_store_do_not_disturb_each_other(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(check_store, [f"{tmp_path}/releases"] * 400))) == 400
    assert list((tmp_path / "releases").iterdir()) == []


def test_check_store_makes_the_folder_of_a_path_that_can_be_written(tmp_path):
    assert isinstance(check_store(f"{tmp_path}/new/releases"), LocalStore)


def test_check_store_refuses_what_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match="must be a folder that can be written"):
        check_store(f"{tmp_path}/file/releases")


@pytest.mark.parametrize("errno", ["EROFS", "EACCES", "EPERM"])
def test_check_store_refuses_what_may_not_be_written(errno, tmp_path, monkeypatch):
    import errno as codes

    def fails(*_, **__):
        raise OSError(getattr(codes, errno), os.strerror(getattr(codes, errno)))

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(InvalidRequest, match="must be a folder that can be written"):
        check_store(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("errno", ["ENOSPC", "EIO", "ETIMEDOUT"])
def test_check_store_says_nothing_of_a_request_when_the_store_fails(errno, tmp_path, monkeypatch):
    import errno as codes

    def fails(*_, **__):
        raise OSError(getattr(codes, errno), os.strerror(getattr(codes, errno)))

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(OSError, match=os.strerror(getattr(codes, errno))):
        check_store(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_check_store_refuses_a_store_that_creates_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalStore, "create", lambda *_: True)
    with pytest.raises(InvalidRequest, match="must be in a store that refuses to create the same object twice"):
        check_store(str(tmp_path))


@pytest.mark.timeout(30, func_only=True)
def test_pipe_in_the_place_of_an_object_is_not_waited_for(local, tmp_path):
    os.mkfifo(tmp_path / "release.json")
    assert local.read(str(tmp_path / "release.json")) == b""


def test_local_names_are_all_files_below(local, tmp_path):
    assert list(local.names(f"{tmp_path}/absent")) == []
    for name in ("a.json", "b c/d.json", "b c/e/f.json"):
        local.create(f"{tmp_path}/r/{name}", b"x")
    assert sorted(local.names(f"file://{tmp_path}/r/")) == ["a.json", "b c/d.json", "b c/e/f.json"]
    assert (local.first(f"{tmp_path}/absent"), local.first(f"{tmp_path}/r")) == (None, "a.json")


def test_s3_refusal_that_does_not_name_its_condition_is_understood(s3):
    s3.names_condition = False
    store = open_store("s3://bucket/x")
    assert store.create("s3://bucket/x", b"first")
    assert not store.create("s3://bucket/x", b"second")


def test_s3_conflict_with_another_write_is_tried_again(s3):
    s3.conflicts = 2
    assert open_store("s3://bucket/x").create("s3://bucket/x", b"first")
    assert s3.objects == {"/bucket/x": b"first"}


class FileSystem:
    """A file system of fsspec that fails."""

    protocol = ("s3", "s3a")

    def __init__(self, fails: Exception) -> None:
        self.fails = fails

    def pipe_file(self, *_, **__):
        raise self.fails

    def cat_file(self, _):
        raise self.fails

    def invalidate_cache(self):
        pass


@pytest.mark.parametrize("fault", [PermissionError("no"), RuntimeError("no credentials")])
def test_conditional_put_raises_oserror_for_every_fault_of_its_client(fault):
    store = ConditionalPutStore(FileSystem(fault))
    with pytest.raises(OSError, match=r"no|the object store failed: RuntimeError"):
        store.create("s3://b/x", b"")
    with pytest.raises(OSError, match=r"no|the object store failed: RuntimeError"):
        store.read("s3://b/x")


@pytest.mark.parametrize(("uri", "extra"), [("s3://b/x", "s3"), ("gs://b/x", "gcs"), (f"{BLOBS}/x", "azure")])
def test_store_without_its_extra_is_refused_with_the_remedy(uri, extra, monkeypatch):
    import fsspec.core

    def missing(_):
        raise ImportError(uri)

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(InvalidRequest, match=rf"install dp-diagnostics\[{extra}\]"):
        open_store(uri)


def test_store_of_another_account_than_the_credentials_is_refused(monkeypatch):
    fsspec.get_filesystem_class("abfss").clear_instance_cache()
    said = "DefaultEndpointsProtocol=http;AccountName=mine;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:9/mine;"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", said)
    with pytest.raises(InvalidRequest, match="must be in the account that this machine signs in to, mine;"):
        open_store(f"{BLOBS}/x")


def test_client_that_cannot_sign_in_is_one_line_without_its_words(monkeypatch):
    fsspec.get_filesystem_class("abfss").clear_instance_cache()
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "a secret")
    with pytest.raises(InvalidRequest, match=r"must be a store that this machine can sign in to \(\w+\); ") as refused:
        open_store(f"{BLOBS}/x")
    assert "secret" not in str(refused.value)
