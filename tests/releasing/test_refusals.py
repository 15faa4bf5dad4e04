"""What is refused, what fails, and what a charge does not pay for."""

from __future__ import annotations

import json

import pytest

from dp_operators.releasing import ChargedRequest, ReleaseFailed, ReleaseRejected, give_back
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import sha256
from tests.support import fake_application
from tests.support.release_lab import HereRunner, NoRunner, draft_folder, judge, make_request


def test_refused_request_costs_nothing_and_frees_its_key(lab):
    with pytest.raises(InvalidRequest) as refused:
        lab.release(runner=HereRunner("refuse"))
    assert str(refused.value) == str(fake_application.REFUSAL)
    assert lab.states() == ["void"]
    assert lab.ledger().remaining("people").epsilon == 10
    judge(lab)
    lab.release(request=make_request(lab.output, title="corrected"), runner=HereRunner())
    assert lab.states() == ["void", "committed"]
    judge(lab)


def test_refusal_that_nobody_sealed_is_none(lab):
    class Planted(HereRunner):
        def run(self, submission, progress):
            statement = NothingRead.of(submission.run, fake_application.REFUSAL).to_json()
            place = submission.request_uri.replace("request.json", f"run-{submission.run}.json")
            open_store(lab.output).create(place, statement)

    with pytest.raises(ReleaseFailed):
        lab.release(runner=Planted())
    assert lab.states() == ["reserved"]
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "burnt"


def test_refusal_of_another_run_is_none_of_this_one(lab):
    lab.attempt("before_run").wait()  # a run that may have read rows

    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail"))
    folder = draft_folder(lab)
    with pytest.raises(ReleaseRejected):
        lab.release(runner=HereRunner("refuse"))
    (folder / "run-1.json").write_bytes((folder / "run-3.json").read_bytes())
    (folder / "run-2.json").write_bytes((folder / "run-3.json").read_bytes())
    assert give_back(ChargedRequest.of(lab.request, lab.ledger(), lab.key), reason="tests").state == "burnt"


def test_refusal_beside_a_run_that_may_have_read_rows_gives_nothing_back(lab):
    lab.attempt("before_run").wait()
    with pytest.raises(ReleaseRejected, match=r"table\.path: got .* \(an earlier run may have read rows"):
        lab.release(runner=HereRunner("refuse"))
    assert lab.states() == ["reserved"]
    judge(lab)


def test_failure_before_the_first_row_ends_its_run(lab):
    with pytest.raises(ReleaseFailed):
        lab.release(runner=HereRunner("fail early"))
    [charge] = lab.charges()
    assert (charge.runs, charge.open_runs, charge.may_have_drawn) == (1, (), False)
    with pytest.raises(InvalidRequest):
        lab.release(runner=HereRunner("refuse"))
    assert lab.states() == ["void"]


def test_refusal_after_another_attempt_has_drawn_adopts_its_draw(lab):
    class Overtaken(HereRunner):
        def run(self, submission, progress):
            if self.runs == 0:
                # another attempt draws and dies; then this one's table is gone
                with pytest.raises(ZeroDivisionError):
                    fake_application.run(
                        submission,
                        store=open_store(submission.output),
                        point=lambda name: 1 / 0 if name == "after_store_draw" else None,
                    )
                seal = fake_application.seal_of(submission)
                statement = NothingRead.of(submission.run, fake_application.REFUSAL).to_json()
                uri = submission.request_uri.replace("request.json", f"run-{submission.run}.json")
                open_store(uri).create(uri, seal.close(f"run-{submission.run}.json", statement))
                self.runs += 1
                return
            super().run(submission, progress)

    runner = Overtaken()
    assert lab.release(runner=runner).uri
    assert runner.runs == 2
    assert lab.states() == ["committed"]
    judge(lab)


# --- failures


def test_failed_application_keeps_its_reservation_for_the_retry(lab):
    with pytest.raises(ReleaseFailed) as failed:
        lab.release(runner=HereRunner("fail"))
    assert failed.value.retryable
    assert lab.states() == ["reserved"]
    judge(lab)
    lab.release(runner=HereRunner())
    assert lab.states() == ["committed"]


def test_application_that_cannot_be_started_keeps_its_reservation(lab):
    class Missing(HereRunner):
        def run(self, submission, progress):
            raise FileNotFoundError("python")

    with pytest.raises(ReleaseFailed, match="could not be run"):
        lab.release(runner=Missing())
    assert lab.states() == ["reserved"]


def test_failed_check_publishes_nothing_and_is_checked_again_on_a_retry_without_a_run(lab):
    class Broken(ReleaseRejected):
        pass

    def check(release, read):
        raise Broken("tpr falls")

    for runner in (HereRunner(), NoRunner()):
        with pytest.raises(Broken) as broken:
            lab.release(check=check, runner=runner)
        assert not broken.value.retryable
        assert lab.states() == ["reserved"]
        assert not (lab.root / "release.json").exists()
    lab.release(runner=NoRunner())
    judge(lab)


def test_check_sees_the_manifest_and_every_file(lab):
    seen = {}

    def check(release, read):
        seen.update({file.name: read(file.name) for file in release.files}, missing=read("no-such-file"))

    lab.release(check=check, runner=HereRunner())
    assert set(seen) == {"report.html", "data/curve.csv", "missing"}
    assert seen["missing"] is None
    assert all(sha256(seen[name]) for name in ("report.html", "data/curve.csv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("charge_id", "another", "its charge"),
        ("status", "UNCHARGED", "its charge"),
        ("key", "another", "its key"),
        ("request_sha256", "0" * 64, "its request"),
        ("neighbours", "replace_one", "its relation"),
        ("unit", {"column": "person", "max_rows": 2}, "its unit"),
        ("cost", {"epsilon": "1.000001", "delta": "0"}, "its cost"),
        ("cost", {"epsilon": "1", "delta": "0.1"}, "its cost"),
        ("guarantee", "NOT PRIVATE", "not private"),
    ],
)
def test_draft_that_the_charge_does_not_pay_for_is_never_committed(lab, field, value, words):
    class Forged(HereRunner):
        """An application gone wrong: it seals a manifest that says something else."""

        def run(self, submission, progress):
            super().run(submission, progress)
            folder, seal = draft_folder(lab), fake_application.seal_of(submission)
            draw = sha256((folder / "draw.json").read_bytes())
            place = folder / "release.json"
            fields = json.loads(seal.open("release.json", place.read_bytes(), draw_sha256=draw))
            forged = json.dumps({**fields, field: value}).encode()
            place.write_bytes(seal.close("release.json", forged, draw_sha256=draw))

    with pytest.raises(ReleaseRejected, match=words):
        lab.release(runner=Forged())
    assert lab.states() == ["reserved"]
    assert not (lab.root / "release.json").exists()
