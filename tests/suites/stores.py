"""What every store of releases promises, whatever keeps its objects."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from spark_jobs.contract.store.objects import check_store, check_writable, open_store
from spark_jobs.contract.store.views import overwrite_view

RACERS = 12


class StoreContract:
    """Inherited by the tests of each store, which give a fixture ``root``: the URI of an empty folder."""

    def test_object_is_read_back_whole(self, root: str) -> None:
        store, content = open_store(root), bytes(range(256)) * 20_000
        assert store.read(f"{root}/a/object") is None
        assert store.create(f"{root}/a/object", content)
        assert store.create(f"{root}/a/empty", b"")
        assert (store.read(f"{root}/a/object"), store.read(f"{root}/a/empty")) == (content, b"")

    def test_second_create_changes_and_deletes_nothing(self, root: str) -> None:
        assert open_store(root).create(f"{root}/draw.json", b"first")
        assert not open_store(root).create(f"{root}/draw.json", b"second")
        assert not open_store(root).create(f"{root}/draw.json", b"")
        assert open_store(root).read(f"{root}/draw.json") == b"first"

    def test_create_of_the_same_content_says_that_it_is_there(self, root: str) -> None:
        """A retry needs to know no more: whoever created it, the object is the one that it would have created."""
        assert open_store(root).create(f"{root}/request.json", b"the request")
        assert open_store(root).create(f"{root}/request.json", b"the request")

    def test_create_raced_by_many_writers_is_won_once(self, root: str) -> None:
        start = threading.Barrier(RACERS)

        def race(number: int) -> bytes | None:
            content = b"%d" % number * 1000
            start.wait()
            return content if open_store(root).create(f"{root}/raced", content) else None

        with ThreadPoolExecutor(RACERS) as pool:
            winners = [content for content in pool.map(race, range(RACERS)) if content is not None]
        assert winners == [open_store(root).read(f"{root}/raced")]

    def test_names_are_all_objects_below_the_folder(self, root: str) -> None:
        store = open_store(root)
        assert list(store.names(root)) == []
        assert store.first(root) is None
        for name in ("r/b c/d.json", "r/a.json", "r/b c/e/f.json", "rest/g.json"):
            assert store.create(f"{root}/{name}", b"x")
        assert sorted(store.names(f"{root}/r/")) == sorted(store.names(f"{root}/r")) == [
            "a.json", "b c/d.json", "b c/e/f.json",
        ]  # fmt: skip
        assert (store.first(f"{root}/r"), store.first(f"{root}/r/b c/")) == ("a.json", "d.json")
        assert store.first(f"{root}/absent") is None

    def test_new_object_is_listed_at_once(self, root: str) -> None:
        store = open_store(root)
        for number in range(3):
            assert len(list(store.names(f"{root}/r"))) == number
            open_store(root).create(f"{root}/r/{number}", b"")

    def test_object_is_read_up_to_a_size(self, root: str) -> None:
        """Of a larger object one byte more is read, which is no object of that size."""
        store = open_store(root)
        for name, content in (("empty", b""), ("some", b"12345")):
            assert store.create(f"{root}/{name}", content)
        assert store.read(f"{root}/empty", limit=0) == store.read(f"{root}/empty", limit=9) == b""
        assert store.read(f"{root}/some", limit=5) == b"12345"
        assert len(store.read(f"{root}/some", limit=3) or b"") > 3
        assert store.read(f"{root}/none", limit=3) is None

    def test_removed_object_is_gone_and_no_other(self, root: str) -> None:
        store = open_store(root)
        for name in ("a.svg", "a.svg.b", "a/c.svg"):
            assert store.create(f"{root}/{name}", name.encode())
        for _ in range(2):
            store.remove(f"{root}/a.svg")
        assert sorted(store.names(root)) == ["a.svg.b", "a/c.svg"]
        assert store.read(f"{root}/a.svg.b") == b"a.svg.b"

    def test_view_is_overwritten(self, root: str) -> None:
        store = open_store(root)
        assert store.create(f"{root}/report.html", b"old")
        overwrite_view(store, f"{root}/report.html", b"new")
        assert store.read(f"{root}/report.html") == b"new"

    def test_checks_leave_one_object_at_most(self, root: str) -> None:
        """In an object store, where nobody need be allowed to delete, it stays; on a file system there is none."""
        for _ in range(2):
            check_writable(root)
            check_store(root)
        local = root.startswith(("/", "file:"))
        assert list(open_store(root).names(root)) == ([] if local else [".probe"])
