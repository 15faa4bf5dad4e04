"""Old releases lose the files that can be made again, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dp_operators.releasing import ReleaseDamaged, check_release_folder
from dp_operators.releasing.retention import prune
from spark_jobs.contract.release import Release
from spark_jobs.contract.store.layout import ReleaseLayout
from tests.support import fake_application
from tests.support.release_lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def everything(lab: Lab) -> dict[str, bytes]:
    root = Path(lab.output)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_files_are_listed_then_removed_and_made_again_for_nothing(lab: Lab) -> None:
    made = lab.release()
    before, ledger = everything(lab), lab.ledger()
    head = ledger.head()
    [listed] = prune(lab.output, ledger, older_than=timedelta(0), remove=False)
    assert listed.release == made.key
    assert everything(lab) == before
    assert prune(lab.output, ledger, older_than=timedelta(days=1), remove=True) == ()
    assert prune(lab.output, ledger, older_than=timedelta(0), remove=True) == (listed,)
    left = everything(lab)
    gone = {name for name in before if name not in left}
    assert {f"{lab.output}/{name}" for name in gone} == {uri.removeprefix("file://") for uri in listed.files}
    assert {"release.json", "receipt.json", "draw.json", "request.json"} <= {Path(name).name for name in left}
    assert prune(lab.output, ledger, older_than=timedelta(0), remove=True) == ()
    assert any("is missing" in line for line in check_release_folder(made.uri, ledger))
    assert ledger.head() == head
    again = lab.release()
    assert (again.manifest_sha256, again.charge_id) == (made.manifest_sha256, made.charge_id)
    published = {name for name in gone if "_draft" not in name}
    assert {name: everything(lab)[name] for name in published} == {name: before[name] for name in published}
    assert check_release_folder(made.uri, ledger) == ()
    assert len(ledger.history("people")) == 1
    ledger.close()


def test_files_that_other_versions_write_otherwise_are_not_published(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made, ledger = lab.release(), lab.ledger()
    drawn = ledger.charge(made.charge_id).draw_sha256
    prune(lab.output, ledger, older_than=timedelta(0), remove=True)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(
            fake_application, "Release", lambda **fields: Release(**{**fields, "versions": {"numpy": "9"}})
        )
        for _ in range(2):
            with pytest.raises(
                ReleaseDamaged, match="prune the release once more, and retry with the versions in"
            ) as refused:
                lab.release()
            assert "\n" not in str(refused.value)
    [charge] = ledger.history("people")
    assert (charge.id, charge.draw_sha256) == (made.charge_id, drawn)
    prune(lab.output, ledger, older_than=timedelta(0), remove=True)
    assert lab.release().manifest_sha256 == made.manifest_sha256
    assert check_release_folder(made.uri, ledger) == ()
    ledger.close()


def test_what_the_ledger_does_not_know_and_what_could_not_be_made_again_stays(lab: Lab) -> None:
    made, ledger = lab.release(), lab.ledger()
    layout = ReleaseLayout.of(lab.output, made.key, made.charge_id)
    [listed] = prune(lab.output, ledger, older_than=timedelta(0), remove=False)
    altered = Path(listed.files[-1].removeprefix("file://"))
    altered.write_bytes(b"another")
    draw = Path(layout.draw.removeprefix("file://"))
    content = draw.read_bytes()
    draw.write_bytes(b"another")
    [kept] = prune(lab.output, ledger, older_than=timedelta(0), remove=True)
    assert kept.kept.startswith("its draw is missing")
    draw.write_bytes(content)
    prune(lab.output, ledger, older_than=timedelta(0), remove=True)
    assert altered.read_bytes() == b"another"
    manifest = Path(layout.manifest.removeprefix("file://"))
    manifest.write_bytes(b"{}")
    [kept] = prune(lab.output, ledger, older_than=timedelta(0), remove=True)
    assert kept.kept.startswith("its manifest is missing")
    ledger.close()
