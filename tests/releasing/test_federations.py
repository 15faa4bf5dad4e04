"""A request names its federation; who its servers are, and which release it is, the administrator has registered."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing import ChargedRequest, LocalRunner, complete, forecast, give_back
from spark_jobs.application.federated import open_silo
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import run_uncharged
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.agreement import Agreement
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Federation
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.federation.__main__ import main
from spark_jobs.mechanisms.noise import SecureNoise
from tests.support.federated import SERVERS, SILOS
from tests.support.release_lab import ForkRunner, HereRunner, Lab, make_request


@pytest.fixture
def federation(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder of registrations with the federation ``hospitals``, made as an administrator makes it."""
    folder = lab.folder / "federations"
    folder.mkdir()
    for name in (*SILOS, *SERVERS):
        assert main(["keys", "--name", name, "--out", str(folder / f"{name}.private")]) == 0
        (folder / f"{name}.public").write_text(capsys.readouterr().out)
    request = folder / "request.json"
    request.write_text(make_request(lab.output).to_json())
    silos = [word for name in SILOS for word in ("--silo", str(folder / f"{name}.public"))]
    servers = [word for name in SERVERS for word in ("--server", f"{folder / name}.public={folder / name}")]
    assert main(["agree", str(request), "--session", "monday", *silos, *servers]) == 0
    (folder / "agreement.json").write_text(capsys.readouterr().out)
    monkeypatch.setenv(FEDERATIONS_VARIABLE, str(folder))
    join(folder, "people")
    assert (
        "silo north, account people, takes part in hospitals once, for epsilon 1 in each silo"
        in capsys.readouterr().out
    )
    return folder


def join(folder: Path, account: str, *, name: str = "hospitals", silo: str = "north") -> None:
    keys = str(folder / f"{silo}.private")
    agreement = str(folder / "agreement.json")
    assert main(["join", agreement, "--name", name, "--account", account, "--keys", keys]) == 0


def asked(lab: Lab, **changes: Any) -> ReleaseRequest:
    return make_request(lab.output, federation="hospitals", **changes)


def test_the_key_of_a_release_is_its_agreements_whoever_asks(lab: Lab, federation: Path) -> None:
    agreement = Agreement.parse(json.loads((federation / "agreement.json").read_text()))
    published = lab.release(request=asked(lab), runner=HereRunner())
    assert published.key == f"federated/{agreement.sha256}"
    again = lab.release(request=asked(lab), runner=HereRunner(), key="another/dag/run/task/-1")
    assert again.adopted
    assert again.uri == published.uri
    ledger = lab.ledger()
    assert ChargedRequest.of(asked(lab), ledger).key == published.key
    [charge] = ledger.history("people")
    assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
    stored = json.loads(Path(published.uri.removeprefix("file://"), "release.json").read_text())
    assert stored["request"]["federation"]["agreement"]["session"] == "monday"
    assert (federation / "hospitals.keys").read_text() not in str(stored)
    ledger.close()


def test_an_agreement_is_not_used_for_another_snapshot(lab: Lab, federation: Path) -> None:
    lab.release(request=asked(lab), runner=HereRunner())
    later = {"path": "file:///lake/visits", "snapshot": {"path_version": "v2"}}
    with pytest.raises(ChargeConflict, match="another request"):
        lab.release(request=asked(lab, table=later), runner=HereRunner(), key="another/dag/run/task/-1")


def test_a_reservation_of_a_federation_is_given_back_by_its_request(lab: Lab, federation: Path) -> None:
    request, ledger = asked(lab), lab.ledger()
    lab.attempt("after_reserve", request=request).wait()
    assert give_back(ChargedRequest.of(request, ledger, "any"), reason="tests").state is ChargeState.VOID
    ledger.close()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one that nobody registered": ({"federation": "clinics"}, "federation: got 'clinics'; must be one that the admin"),
    "servers of the author's": ({"federation": {"name": "hospitals", "agreement": None}}, ""),
    "another filter": ({"where": "score > 0.5"}, "the hash of those fields of this request that all silos share"),
    "more epsilon": ({"budget": {"epsilon": "2"}}, "the hash of those fields of this request that all silos share"),
    "another relation": ({"neighbours": "replace_one"}, "neighbours: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_not_registered_is_refused_and_nothing_is_charged(lab: Lab, federation: Path, case: str) -> None:
    changes, words = REFUSED[case]
    changes = {"federation": "hospitals", **changes}
    if not words:
        content = json.loads((federation / "hospitals.json").read_text())["agreement"]
        content["servers"][0]["folder"] = "/of/the/author"
        changes, words = {"federation": {"name": "hospitals", "agreement": content}}, "give only the federation's name"
    ledger = lab.ledger()
    before, runner = ledger.head(), ForkRunner()
    with pytest.raises(InvalidRequest, match=words) as refused:
        lab.release(request=make_request(lab.output, **changes), runner=runner)
    assert "\n" not in str(refused.value)
    assert (ledger.head(), runner.runs) == (before, 0)
    ledger.close()


def test_a_federation_is_registered_for_one_account(lab: Lab, federation: Path) -> None:
    lab.open_account("others", "file:///lake/others")
    join(federation, "others", name="clinics", silo="south")
    with pytest.raises(
        InvalidRequest, match="must be registered for account people, and is registered for another account"
    ):
        lab.release(request=make_request(lab.output, federation="clinics"))


def test_this_machine_must_have_the_folder_and_the_keys_of_a_silo(lab: Lab, federation: Path) -> None:
    ledger = lab.ledger()
    completed = complete(asked(lab), ledger)
    runner = LocalRunner(private_dir=lab.folder / "private")
    (federation / "hospitals.keys").rename(federation / "north.keys")
    with pytest.raises(InvalidRequest, match=r"must have private keys.*mount hospitals.keys"):
        runner.check(completed)
    (federation / "hospitals.keys").write_text((federation / "one.private").read_text())
    with pytest.raises(InvalidRequest, match="keys: must be the keys of a silo of the agreement: north, south, west"):
        runner.check(completed)
    del os.environ[FEDERATIONS_VARIABLE]
    with pytest.raises(InvalidRequest, match="must name the folder of registered federations"):
        forecast(ChargedRequest.of(complete(asked(lab), ledger), ledger, "k"), runner=runner)
    ledger.close()


def test_the_application_takes_no_other_agreement_than_its_own_machines(lab: Lab, federation: Path) -> None:
    content = json.loads((federation / "hospitals.json").read_text())
    content["agreement"]["session"] = "tuesday"
    changed = Federation(name="hospitals", agreement=Agreement.parse(content["agreement"]))
    with pytest.raises(InvalidRequest, match="must be registered on this machine as it was when the request was"):
        open_silo(changed)
    content["agreement"]["session"] = "monday"
    own = Federation(name="hospitals", agreement=Agreement.parse(content["agreement"]))
    assert open_silo(own).silo == "north"


def test_a_draft_that_no_ledger_pays_shares_nothing(lab: Lab, federation: Path) -> None:
    with pytest.raises(InvalidRequest, match="must be left out of a draft that no ledger has charged"):
        run_uncharged(
            asked(lab), output=f"{lab.folder}/draft", store=LocalStore(), noise=SecureNoise(), master=None,
            announcer=Announcer(io.StringIO(), None),
        )  # fmt: skip
    assert not (federation / "one").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["join", "AGREEMENT", "--name", "../up", "--account", "a", "--keys", "OTHERS"], "name: got '../up'"),
        (["join", "AGREEMENT", "--name", "b", "--account", "a", "--keys", "SERVER"], "must be the keys of a silo"),
        (["join", "AGREEMENT", "--name", "hospitals", "--account", "a", "--keys", "OTHERS"], "File exists"),
        (["join", "AGREEMENT", "--name", "b", "--account", "a", "--keys", "COPY"], "must be registered only once"),
        (
            ["join", "LATER", "--name", "b", "--account", "a", "--keys", "COPY"],
            "must be used for this agreement alone",
        ),
        (["join", "AGREEMENT", "--name", "b", "--account", "a", "--keys", "KEYS"], "must have private keys, in a file"),
        (["agree", "REQUEST", "--session", "s", "--silo", "SILO", "--server", "PUBLIC=hdfs://x"], "folder: got"),
        (["agree", "REQUEST", "--session", "s", "--silo", "AGREEMENT", "--server", "x=y"], "name: is required"),
    ],
)
def test_wrong_commands_end_in_one_line(
    lab: Lab, federation: Path, command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "AGREEMENT": "agreement.json", "KEYS": "north.private", "OTHERS": "south.private", "SERVER": "one.private",
        "REQUEST": "request.json", "SILO": "north.public", "PUBLIC": "one.public", "COPY": "copy.private",
        "LATER": "later.json",
    }  # fmt: skip
    # a copy that somebody has kept, and an agreement for which it was not made
    (federation / "copy.private").write_bytes((federation / "hospitals.keys").read_bytes())
    agreed = json.loads((federation / "agreement.json").read_text())
    (federation / "later.json").write_text(json.dumps({**agreed, "session": "tuesday"}))
    for word, name in files.items():
        command = [part.replace(word, str(federation / name)) if word in part else part for part in command]
    assert main(command) in (1, 2)
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
