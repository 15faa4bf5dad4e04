"""Keys for one agreement end with it: no earlier, whoever is killed, and no later."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.federated import finish, open_silo
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Federation, Registration
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.federation.__main__ import main
from spark_jobs.federation.agreement import Agreement, Keys
from spark_jobs.federation.exchange import Silo
from spark_jobs.federation.own_keys import AgreementClosed, destroy, is_closed, read_keys, registered_keys
from spark_jobs.federation.serving import Summing
from tests.support.federated import SERVERS, SILOS, prepare
from tests.support.federated_points import SILO_ROWS
from tests.support.repository import ROOT

UNTOUCHED = ["before_close", "after_close", "before_destroy_keys", "before_overwrite_keys"]
KILLS = [*UNTOUCHED, "after_overwrite_keys", "after_destroy_keys"]


def program(*words: str, kill: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables} | ({VARIABLE: kill} if kill else {})
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def serve(folder: Path, name: str, *, kill: str = "") -> subprocess.CompletedProcess[str]:
    return program(
        "-m", "spark_jobs.federation", "serve", str(folder / "agreement.json"), "--server", name,
        "--keys", str(folder / f"{name}.keys"), "--receipts", str(folder / "receipts" / name),
        "--poll-seconds", "0.01", kill=kill,
    )  # fmt: skip


def in_silo(agreement: Agreement, keys: dict[str, Keys], name: str) -> np.ndarray:
    silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.01)
    total = silo.exchange(np.arange(4), "1", 1)
    silo.end("a draw")
    return total


@pytest.mark.parametrize("kill", KILLS)
def test_a_server_that_is_killed_around_the_end_of_its_keys_goes_on_or_is_closed(tmp_path: Path, kill: str) -> None:
    agreement, keys = prepare(tmp_path, epsilon="1")
    with ThreadPoolExecutor(5) as pool:
        servers = [pool.submit(serve, tmp_path, "one", kill=kill), pool.submit(serve, tmp_path, "two")]
        sums = [run.result() for run in [pool.submit(in_silo, agreement, keys, name) for name in SILOS]]
        killed, whole = (run.result() for run in servers)
    assert (killed.returncode, whole.returncode) == (-9, 0), killed.stderr + whole.stderr
    assert all(np.array_equal(one, sums[0]) for one in sums)
    path, secret = tmp_path / "one.keys", keys["one"].to_text().encode()
    before = kill == "before_close"
    assert is_closed(path) != before
    assert (path.exists() and path.read_bytes() == secret) == (kill in UNTOUCHED)
    again = serve(tmp_path, "one")
    assert again.returncode == 0, again.stderr
    assert ("1 sums published" if before else "is closed: its keys were destroyed") in again.stdout
    assert not path.exists()
    assert not (tmp_path / "two.keys").exists()
    assert not any(secret in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


def test_keys_live_while_evaluations_are_left_that_were_paid_for(tmp_path: Path) -> None:
    agreement, keys = prepare(tmp_path, epsilon="1")
    paths = {name: tmp_path / f"{name}.keys" for name in SERVERS}

    def served(name: str) -> int:
        return Summing(
            agreement=agreement, keys=keys[name], server=name, receipts=str(tmp_path / "receipts" / name),
            poll_seconds=0.01, keys_file=paths[name],
        ).serve()  # fmt: skip

    def deposit(name: str) -> None:
        silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.01)
        below = silo.deposit(np.ones(8, dtype=np.int64), epsilon="1", evaluations=3, capacity=SILO_ROWS)
        below(np.array([2, 4]))
        silo.end("a draw")

    with ThreadPoolExecutor(5) as pool:
        runs = [*(pool.submit(served, name) for name in SERVERS), *(pool.submit(deposit, name) for name in SILOS)]
        for run in runs:
            run.result()
    north = Silo(agreement=agreement, keys=keys["north"], silo="north", poll_seconds=0.01)
    assert north.left() == 1
    assert all(path.exists() and not is_closed(path) for path in paths.values())
    resumed, header, points = north.resumed()
    assert points == (2, 4)

    def answered(name: str) -> int:
        own = {"agreement": agreement, "keys": keys[name], "server": name, "keys_file": paths[name]}
        receipts = str(tmp_path / "receipts" / name)
        return Summing(receipts=receipts, poll_seconds=0.01, **own).serve(answer_seconds=60)

    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(answered, name) for name in SERVERS]
        resumed.ask(header, np.array([6]))
        for run in runs:
            run.result()
    assert north.left() == 0
    assert not any(path.exists() for path in paths.values())


def registered(folder: Path, monkeypatch: pytest.MonkeyPatch, **agreed: Any) -> tuple[Federation, dict[str, Keys]]:
    """The silo north's registration, under its own name."""
    agreement, keys = prepare(folder, **agreed)
    monkeypatch.setenv(FEDERATIONS_VARIABLE, str(folder))
    (folder / "north.json").write_text(Registration(agreement=agreement, account="a").model_dump_json())
    return Federation(name="north", agreement=agreement), keys


def released(folder: Path, federation: Federation, keys: dict[str, Keys]) -> None:
    """All silos and servers up to the end of a release."""
    assert federation.agreement is not None
    agreement = federation.agreement
    with ThreadPoolExecutor(5) as pool:
        for name in SERVERS:
            own = {"agreement": agreement, "keys": keys[name], "server": name}
            pool.submit(Summing(receipts=str(folder / "receipts" / name), poll_seconds=0.01, **own).serve)
        list(pool.map(lambda name: in_silo(agreement, keys, name), SILOS))


FINISH = "from spark_jobs.application.federated import finish; from spark_jobs.contract.federation import *; \
import json; finish(Federation.parse(json.loads(open({path!r}).read())))"


@pytest.mark.parametrize("kill", KILLS)
def test_a_silo_that_is_killed_around_the_end_of_its_keys_goes_on_or_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    federation, keys = registered(tmp_path, monkeypatch, epsilon="1")
    finish(federation)
    assert open_silo(federation).silo == "north", "nothing has ended yet, so that nothing is destroyed"
    released(tmp_path, federation, keys)
    (tmp_path / "asked").write_text(federation.model_dump_json())
    code = FINISH.format(path=str(tmp_path / "asked"))
    assert program("-c", code, kill=kill, **{FEDERATIONS_VARIABLE: str(tmp_path)}).returncode == -9
    if kill == "before_close":
        assert open_silo(federation).silo == "north", "the same keys go on"
    else:
        with pytest.raises(AgreementClosed, match="is closed: its keys were destroyed after the last evaluation"):
            open_silo(federation)
        assert not (tmp_path / "north.keys").exists(), "whoever looks for the keys does what was left"
    finish(federation)
    assert is_closed(tmp_path / "north.keys")
    assert not (tmp_path / "north.keys").exists()
    finish(federation)


def test_a_folder_that_cannot_be_written_to_keeps_its_keys_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation, keys = registered(tmp_path, monkeypatch, epsilon="1")
    released(tmp_path, federation, keys)

    def readonly(path: Path) -> bool:
        raise PermissionError(path)

    monkeypatch.setattr("spark_jobs.application.federated.destroy", readonly)
    finish(federation)
    assert registered_keys(os.environ, "north").to_text() == keys["north"].to_text()


def test_close_destroys_what_nothing_is_left_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    federation, keys = registered(tmp_path, monkeypatch, epsilon="1")
    assert main(["close", "north"]) == 2
    assert "federation: got 'north'; has not ended; wait, or give up" in capsys.readouterr().err
    released(tmp_path, federation, keys)
    for _ in range(2):  # the second finds it closed
        assert main(["close", "north"]) == 0
    assert "north is closed, and its keys are destroyed" in capsys.readouterr().out
    assert not (tmp_path / "north.keys").exists()


def test_an_agreement_that_is_given_up_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(tmp_path, monkeypatch, epsilon="1")
    assert main(["close", "north", "--give-up"]) == 0
    assert is_closed(tmp_path / "north.keys")


def test_lasting_keys_are_never_destroyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.keys"
    assert main(["keys", "--name", "north", "--out", str(path), "--lasting"]) == 0
    lasting = read_keys(path, name="own")
    assert lasting.lasting
    assert lasting.public("north").model_dump_json() in capsys.readouterr().out
    assert not destroy(path)
    assert read_keys(path, name="own").to_text() == lasting.to_text()
    registered(tmp_path, monkeypatch, epsilon="1")
    (tmp_path / "north.keys").write_text(lasting.to_text())
    assert main(["close", "north", "--give-up"]) == 2
    assert "must be keys for a single agreement" in capsys.readouterr().err
    with pytest.raises(InvalidRequest, match="two private keys"):
        Keys.from_text("lasting")
