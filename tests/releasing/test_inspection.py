"""A release folder is what its manifest says, its manifest what the ledger paid for; every difference is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_operators.releasing import ChargedRequest, check_release_folder, release
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import execute
from tests.support.release_lab import ForkRunner, Lab, accept


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Lab, Path]:
    lab = Lab(tmp_path)
    found = release(ChargedRequest.of(lab.request, lab.ledger(), lab.key), runner=ForkRunner(), check=accept)
    return lab, Path(found.uri)


def findings(folder: tuple[Lab, Path]) -> str:
    lab, path = folder
    return "\n".join(check_release_folder(str(path), lab.ledger()))


def test_sound_release_has_no_findings(folder: tuple[Lab, Path]) -> None:
    assert findings(folder) == ""
    assert check_release_folder(f"{folder[1]}/release.json", folder[0].ledger()) == ()


def test_any_byte_of_any_file_counts(folder: tuple[Lab, Path]) -> None:
    _, path = folder
    manifest = json.loads((path / "release.json").read_bytes())
    names = ["release.json", *(file["name"] for file in manifest["files"])]
    assert len(names) > 1
    for name in names:
        whole = (path / name).read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            (path / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert name in findings(folder), (name, at)
        (path / name).write_bytes(whole)
    assert findings(folder) == ""


def test_file_that_nobody_released_is_found(folder: tuple[Lab, Path]) -> None:
    (folder[1] / "notes").mkdir()
    (folder[1] / "notes" / "raw.csv").write_text("x")
    assert findings(folder) == "notes/raw.csv: is not in the manifest"


def remove(name: str) -> Callable[[Lab, Path], object]:
    return lambda lab, path: (path / name).unlink()


def rewrite(name: str, **changes: object) -> Callable[[Lab, Path], object]:
    def change(lab: Lab, path: Path) -> None:
        fields = json.loads((path / name).read_bytes())
        (path / name).write_text(json.dumps({**fields, **changes}))

    return change


def in_ledger(statement: str) -> Callable[[Lab, Path], object]:
    return lambda lab, path: execute(lab.url, statement)


DAMAGE = {
    "receipt gone": (remove("receipt.json"), "receipt.json: is missing"),
    "no receipt": (lambda lab, path: (path / "receipt.json").write_text("x"), "receipt.json: is not a receipt"),
    "receipt of another": (rewrite("receipt.json", manifest_sha256="0" * 64), "receipt.json: is another manifest's"),
    "tail cut": (
        in_ledger("DELETE FROM audit_log WHERE seq > 2"),
        "receipt.json: records entry 6 of the audit log as ",
    ),
    "log rewritten": (in_ledger("UPDATE audit_log SET hash = 'x' WHERE seq = 6"), "the log has a different one"),
    "charge burnt": (in_ledger("UPDATE charges SET state = 'burnt'"), "is burnt, not committed"),
    "charge of another": (in_ledger("UPDATE charges SET manifest_sha256 = 'ab'"), "the ledger committed ab"),
    "charge of another key": (in_ledger("UPDATE charges SET release_key = 'k'"), "its key is not that of charge"),
    "charge of another request": (in_ledger("UPDATE charges SET request_sha256 = 'k'"), "its request is not that"),
    "cheaper charge": (in_ledger("UPDATE charges SET epsilon = '0.5'"), "its cost is above that of charge"),
    "charge unknown": (in_ledger("DELETE FROM charges"), "which the ledger does not know"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=list(DAMAGE))
def test_damage_is_found_and_named(folder: tuple[Lab, Path], damage: Callable, words: str) -> None:
    damage(*folder)
    assert words in findings(folder)


def test_folder_of_another_key_is_found(folder: tuple[Lab, Path]) -> None:
    lab, path = folder
    moved = path.rename(path.with_name("elsewhere"))
    assert findings((lab, moved)) == f"release.json: lies in another folder than its key's, {path.name}"


def test_folder_without_a_release_is_refused(folder: tuple[Lab, Path]) -> None:
    with pytest.raises(InvalidRequest, match=r"must be a folder that holds release\.json"):
        check_release_folder(str(folder[1].parent), folder[0].ledger())
