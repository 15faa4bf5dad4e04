"""Silos and servers that meet in folders release the draw of the pooled table once, whoever is killed or cheats."""

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.contract.store.objects import open_store
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.federation.__main__ import main
from spark_jobs.federation.additive import add, residues, split
from spark_jobs.federation.agreement import Agreement, Keys
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.exchange import FederationFailed, Silo, share_uri, sum_uri
from spark_jobs.federation.messages import Header, MessageRejected, context, encrypt, sign
from spark_jobs.federation.messages import read as read_message
from spark_jobs.federation.serving import Summing
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support import federated
from tests.support.federated import SERVERS, SILOS, prepare
from tests.support.repository import ROOT

VECTORS = {name: np.arange(6).reshape(2, 3) * (1 + number) for number, name in enumerate(SILOS)}


def together(agreement, keys, *, silo=None, server=None, rounds=1, hashes=None, vectors=VECTORS):
    """All roles in threads; ``silo`` and ``server`` replace what a role does. Results or errors by name."""
    receipts = Path(agreement.servers[0].folder).parent / "receipts"

    def play_silo(name):
        member = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        sums = [member.exchange(vectors[name], "1", 1) for _ in range(rounds)]
        member.end((hashes or {}).get(name, "a draw"))
        return sums

    def play_server(name):
        own = {"server": name, "keys": keys[name], "receipts": str(receipts / name)}
        return Summing(agreement=agreement, poll_seconds=0.005, **own).serve()

    roles = {name: (silo or {}).get(name, play_silo) for name in SILOS}
    roles |= {name: (server or {}).get(name, play_server) for name in SERVERS}
    with ThreadPoolExecutor(len(roles)) as pool:
        runs = {name: pool.submit(role, name) for name, role in roles.items()}
    return {name: run.exception() or run.result() for name, run in runs.items()}


def test_silos_get_the_noisy_sum_of_all(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="1000000000")
    outcomes = together(agreement, keys)
    sums = [outcomes[name][0] for name in SILOS]
    assert all(np.array_equal(each, sums[0]) for each in sums)
    assert np.abs(sums[0] - sum(VECTORS.values())).max() < 100  # two shares of noise at epsilon 1
    assert [outcomes[name] for name in SERVERS] == [1, 1]


def test_a_repeated_run_adopts_everything_and_draws_nothing(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="3")
    first = together(agreement, keys, rounds=3)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = together(agreement, keys, rounds=3)
    assert all(np.array_equal(first[name], again[name]) for name in SILOS)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_objects_that_a_store_has_lost_are_made_again_with_the_same_noise(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="1")
    first = together(agreement, keys)
    before = {server.name: Path(server.folder, "0", "sum").read_bytes() for server in agreement.servers}
    for server in agreement.servers:
        for path in Path(server.folder, "0").iterdir():
            path.unlink()
    again = together(agreement, keys)
    assert all(np.array_equal(first[name], again[name]) for name in SILOS)
    assert before == {server.name: Path(server.folder, "0", "sum").read_bytes() for server in agreement.servers}


def test_other_counts_are_never_summed_in_a_round_that_was(tmp_path):
    """Two sums of one round would differ by what has changed in the table, or would average the noise away."""
    agreement, keys = prepare(tmp_path, epsilon="1", wait_seconds=2)
    together(agreement, keys)
    for server in agreement.servers:
        for path in Path(server.folder).glob("*/*"):
            path.unlink()
    changed = {**VECTORS, "south": VECTORS["south"] + 1}
    failed(together(agreement, keys, vectors=changed), "round 0 has been summed from other shares")


def test_what_a_silo_has_shared_stands_though_its_counts_have_changed(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="1", wait_seconds=2)
    first = together(agreement, keys)
    again = together(agreement, keys, vectors={**VECTORS, "south": VECTORS["south"] + 1})
    assert all(np.array_equal(first[name], again[name]) for name in SILOS)


def test_servers_with_shares_of_two_vectors_of_a_silo_end_the_release(tmp_path):
    """A silo that was killed between its two servers, and whose table has changed when it runs again."""
    agreement, keys = prepare(tmp_path, epsilon="1", wait_seconds=2)
    changed = {**VECTORS, "south": VECTORS["south"] + 1}

    def killed(name):
        member = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        member.exchange(changed[name], "1", 1)

    store, written = open_store(agreement.servers[0].folder), tmp_path / "of the first attempt"
    together(agreement, keys, silo={"south": killed})
    first = store.read(share_uri(agreement.servers[0], 0, "south"))
    written.write_bytes(first)
    for path in [one for server in agreement.servers for one in Path(server.folder).rglob("*") if one.is_file()]:
        path.unlink()
    shutil.rmtree(tmp_path / "receipts")
    store.create(share_uri(agreement.servers[0], 0, "south"), first)
    outcomes = together(agreement, keys)
    for name in SILOS:
        assert "servers one and two have shares of different vectors in round 0" in str(outcomes[name])


def test_nothing_on_a_store_confirms_a_guess_for_whoever_gets_the_silos_key(tmp_path):
    """What the key derives from a right guess of the counts is nowhere to be compared with."""
    agreement, keys = prepare(tmp_path, epsilon="1")
    together(agreement, keys)
    header = Header(
        agreement=agreement.sha256, kind="share", turn=0, sender="north", recipient="", shape=(2, 3), epsilon="1",
        l1_sensitivity=1,
    )  # fmt: skip
    guess = residues(VECTORS["north"])
    derived = [derived_key(keys["north"], purpose, header=header, vectors=[guess]) for purpose in ("tag", "masks")]
    masks = split(VECTORS["north"], servers=2, noise=DerivedWords(derived[1]))
    known = [*derived, *(part.astype("<u8").tobytes() for part in masks)]
    known += [hashlib.sha256(secret).digest() for secret in known]
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".keys"]
    assert len(stored) > 10
    for secret, content in itertools.product(known, stored):
        assert secret not in content
        assert secret.hex().encode() not in content
    # and what was written there before could be compared: the tag in the clear
    cleartext = sign(replace(header, tag=derived[0].hex()), b"", keys=keys["north"])
    assert derived[0].hex().encode() in cleartext


def run_role(role, name, folder, *, kill=None):
    command = [sys.executable, str(ROOT / "tests/support/federated.py"), role, name, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | ({VARIABLE: kill} if kill else {})
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


ROLES = [*(("silo", name) for name in SILOS), *(("server", name) for name in SERVERS)]
# four rounds, and the end: a silo writes two objects in each; a server a receipt in each round, and an answer in each
TIMES = {"share": 10, "keep_receipt": 4, "answer": 5}
# `make verify` kills before the steps of a round or after them, by turns, at half of them; `make soak` does the rest
KILLS = [
    pytest.param(
        kill := (*(ROLES[1] if step == "share" else ROLES[4]), f"{moment}_{step}:after:{place}"),
        id="-".join(kill),
        marks=[pytest.mark.soak] if (place // 2 + before) % 2 else [],
    )
    for step, times in TIMES.items()
    for place in range(times)
    for before, moment in enumerate(("before", "after"))
]


@pytest.mark.verify
@pytest.mark.halved
@pytest.mark.parametrize("kill", KILLS)
def test_processes_that_are_killed_finish_with_one_draw_when_they_run_again(tmp_path, kill):
    prepare(tmp_path)
    role, name, at = kill
    running = {each: run_role(*each, tmp_path, kill=at if each == (role, name) else None) for each in ROLES}
    assert running[role, name].wait(timeout=180) == -signal.SIGKILL, running[role, name].stderr.read()
    written = {path: path.read_bytes() for path in tmp_path.glob("server-*/*/*")}
    running[role, name] = run_role(role, name, tmp_path)
    for process in running.values():
        assert process.wait(timeout=180) == 0, process.stderr.read()
    draws = [(tmp_path / f"{silo}.draw").read_text() for silo in SILOS]
    assert len(set(draws)) == 1
    assert all(path.read_bytes() == content for path, content in written.items())


@pytest.mark.verify
def test_the_draw_is_that_of_the_pooled_table(tmp_path):
    """The same sums, given to the pooled table's measurement as its noisy vectors, make the same draw."""
    agreement, _ = prepare(tmp_path)
    for process in [run_role(*each, tmp_path) for each in ROLES]:
        assert process.wait(timeout=180) == 0, process.stderr.read()

    class Played(SeededNoise):
        guarantee, private, turn = "private", True, 0

        def laplace(self, values, **cost):
            sums = []
            for server in agreement.servers:
                content = Path(server.folder, str(self.turn), "sum").read_bytes()
                where = {"kinds": ("sum",), "turn": self.turn, "recipient": "all"}
                header, payload = read_message(content, agreement=agreement, sender=server, **where)
                sums.append(np.frombuffer(payload, dtype="<u8").reshape(header.shape))
            self.turn += 1
            assert sums[0].shape == np.shape(values)
            return add(sums).view(np.int64)

    pooled = sum((federated.statistic(name) for name in SILOS[1:]), federated.statistic(SILOS[0]))
    noise = Played(1)
    noise.guarantee = json.loads((tmp_path / "north.draw").read_text())["guarantee"]
    draw = diagnostic(federated.KIND).measure(pooled, noise=noise, **federated.OPTIONS)
    assert json.loads(json.dumps(codec.encode(draw))) == json.loads((tmp_path / "north.draw").read_text())


def failed(outcomes, message):
    """Every role ends with one line, and nobody has a result."""
    assert all(isinstance(outcome, FederationFailed) for outcome in outcomes.values()), outcomes
    assert any(message in str(outcome) for outcome in outcomes.values()), outcomes
    assert all("\n" not in str(outcome) for outcome in outcomes.values())


def test_a_silo_that_does_not_come_is_named(tmp_path):
    agreement, keys = prepare(tmp_path, wait_seconds=0.3)
    outcomes = together(agreement, keys, silo={"west": lambda name: FederationFailed("away")})
    failed(outcomes, "silo west has sent nothing within 0.3 seconds")
    # whoever comes late, or again, finds the refusal: no second draw
    failed(together(agreement, keys), "silo west has sent nothing within 0.3 seconds")


def test_a_server_that_does_not_come_is_named(tmp_path):
    agreement, keys = prepare(tmp_path, wait_seconds=0.3)
    outcomes = together(agreement, keys, server={"two": lambda name: FederationFailed("away")})
    assert all("server two has sent nothing" in str(outcomes[name]) for name in SILOS)


def cheating(agreement, keys, /, **changed):
    """A silo that sends both servers a share with a changed header, payload, signature or name."""

    def play(name):
        for server in agreement.servers:
            header = Header(
                agreement=agreement.sha256,
                kind="share",
                turn=0,
                sender=name,
                recipient=server.name,
                shape=(2, 3),
                epsilon="1",
                l1_sensitivity=1,
            )
            wrong = replace(header, **{key: value for key, value in changed.items() if hasattr(header, key)})
            recipient = agreement.servers[1] if changed.get("encrypted_to") else server
            share = np.zeros(changed.get("length", 6), np.uint64)
            payload = encrypt(share, tag=bytes(32), recipient=recipient, context=changed.get("context", context(wrong)))
            content = sign(wrong, payload, keys=changed.get("keys", keys[name]))
            open_store(server.folder).create(share_uri(server, 0, name), changed.get("content", content))
        return FederationFailed("cheated")

    return {"west": play}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shape": (3, 2)}, "the silos measure different things"),
        ({"epsilon": "0.5"}, "the silos measure different things"),
        ({"length": 5}, "a vector of west has another length than its header says"),
        ({"turn": 1}, "a message of west belongs to another turn"),
        ({"recipient": "one"}, "a message of west belongs to another recipient"),
        ({"sender": "north"}, "a message of west belongs to another sender"),
        ({"agreement": "1" * 64}, "a message of west belongs to another agreement"),
        ({"version": 1}, "a message of west belongs to another version"),
        ({"shape": (-2, -3)}, "a message of west has no valid signature by this participant"),
        ({"shape": (2.0, 3)}, "a message of west has no valid signature by this participant"),
        ({"l1_sensitivity": "1"}, "a message of west has no valid signature by this participant"),
        ({"epsilon": "a lot"}, "the silos measure different things"),
        ({"kind": "sum"}, "a message of west is a sum, where share or keys or question or end was due"),
        ({"context": "another round"}, "a share of west was not encrypted for this server and round"),
        ({"encrypted_to": "two"}, "a share of west was not encrypted for this server and round"),
        ({"keys": Keys.generate()}, "a message of west has no valid signature by this participant"),
        ({"content": b""}, "a message of west has no valid signature by this participant"),
        ({"content": b"x" * 200}, "a message of west has no valid signature by this participant"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_share_that_is_not_right_ends_the_release(tmp_path, changed, message):
    agreement, keys = prepare(tmp_path, wait_seconds=2)
    failed(together(agreement, keys, silo=cheating(agreement, keys, **changed)), message)


def test_less_noise_than_agreed_is_refused(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="0.5", wait_seconds=2)
    failed(together(agreement, keys), "the silos ask for less noise than was agreed")


def test_different_draws_are_refused(tmp_path):
    agreement, keys = prepare(tmp_path, wait_seconds=2)
    failed(together(agreement, keys, hashes={"south": "another draw"}), "the silos have made different draws")


def test_a_sum_that_a_server_did_not_sign_is_refused(tmp_path):
    agreement, keys = prepare(tmp_path, wait_seconds=2)

    def forged(name):
        blank = Header(agreement=agreement.sha256, kind="sum", turn=0, sender=name, recipient="all", shape=(2, 3))
        content = sign(blank, bytes(48), keys=Keys.generate())
        open_store(agreement.servers[1].folder).create(sum_uri(agreement.servers[1], 0), content)
        return FederationFailed("forged")

    outcomes = together(agreement, keys, server={"two": forged})
    assert all("a message of two has no valid signature" in str(outcomes[name]) for name in SILOS)


def test_shares_are_sealed_from_the_other_server_and_from_the_store(tmp_path):
    agreement, keys = prepare(tmp_path, epsilon="1")
    together(agreement, keys)
    content = Path(agreement.servers[0].folder, "0", "share-of-north").read_bytes()
    where = {"agreement": agreement, "kinds": ("share",), "turn": 0, "recipient": "one"}
    header, payload = read_message(content, sender=agreement.silos[0], **where)
    from spark_jobs.federation.messages import decrypt

    tag, opened = decrypt(payload, keys=keys["one"], context=context(header), shape=(2, 3), sender="north")
    assert opened.min() > 2**40
    assert tag.hex() not in json.dumps(asdict(header))
    for stranger in ("two", "south"):
        with pytest.raises(MessageRejected, match="was not encrypted for this server"):
            decrypt(payload, keys=keys[stranger], context=context(header), shape=(2, 3), sender="north")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"colluding": 2}, "colluding: got 2; must be at most 1 for this number"),
        ({"silos_per_person": 4}, "silos_per_person: got 4; must be at most 3 for this number"),
        ({"silos": lambda a: [a.silos[0], a.silos[0]]}, "name: got 'north'; must be different for each participant"),
        ({"servers": lambda a: [a.servers[0], a.servers[1].model_copy(update={"folder": a.servers[0].folder + "/"})]},
         "folder: .*must be different for each participant"),
        ({"silos": lambda a: [a.silos[0]]}, "silos"),
        ({"epsilon": "0"}, "epsilon"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_agreements_that_cannot_hold_are_refused(tmp_path, changed, message):
    agreement, _ = prepare(tmp_path)
    fields = {key: value(agreement) if callable(value) else value for key, value in changed.items()}
    with pytest.raises(InvalidRequest, match=message):
        Agreement(**{**agreement.model_dump(), **fields})


def test_keys_of_another_participant_are_refused(tmp_path):
    agreement, keys = prepare(tmp_path)
    with pytest.raises(InvalidRequest, match="name: got 'north'; must be one of north, south, west, with the keys"):
        Silo(agreement=agreement, keys=keys["south"], silo="north")
    with pytest.raises(InvalidRequest, match="name: got 'three'; must be one of one, two, with the keys"):
        Summing(agreement=agreement, keys=keys["two"], server="three", receipts=str(tmp_path / "receipts"))


def test_keys_are_read_back_and_never_shown():
    keys = Keys.generate()
    again = Keys.from_text(keys.to_text())
    assert again.public("a") == keys.public("a")
    assert keys.to_text().split()[0] not in repr(keys)
    with pytest.raises(InvalidRequest, match="keys: must be two private keys of 64 hexadecimal digits"):
        Keys.from_text("nothing")


class TestCommand:
    def test_keys_are_written_for_their_owner_and_the_public_parts_printed(self, tmp_path, capsys):
        file = tmp_path / "one.keys"
        assert main(["keys", "--name", "one", "--out", str(file)]) == 0
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(capsys.readouterr().out) == Keys.from_text(file.read_text()).public("one").model_dump()
        assert main(["keys", "--name", "one", "--out", str(file)]) == 1  # keys are never replaced
        assert "File exists" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"session": ""}, "session"),
            ({"colluding": 5}, "colluding: got 5; must be at most 1 for this number"),
            ({"sesion": "x"}, "sesion"),
        ],
    )
    def test_a_wrong_agreement_is_refused(self, tmp_path, capsys, changed, message):
        agreement, _ = prepare(tmp_path)
        (tmp_path / "wrong.json").write_text(json.dumps({**agreement.model_dump(mode="json"), **changed}))
        command = ["serve", str(tmp_path / "wrong.json"), "--server", "one", "--keys", str(tmp_path / "one.keys")]
        command += ["--receipts", str(tmp_path / "receipts")]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.startswith("refused: ")
        assert message in error
        assert error.count("\n") == 1

    def test_a_server_serves_a_release(self, tmp_path, capsys):
        agreement, keys = prepare(tmp_path)

        def serve(name):
            files = [str(tmp_path / "agreement.json"), "--keys", str(tmp_path / f"{name}.keys")]
            files += ["--receipts", str(tmp_path / "receipts" / name)]
            return main(["serve", *files, "--server", name, "--poll-seconds", "0.01"])

        outcomes = together(agreement, keys, server=dict.fromkeys(SERVERS, serve))
        assert [outcomes[name] for name in SERVERS] == [0, 0]
        assert capsys.readouterr().out == 2 * "1 sums published; all silos have the same draw\n"

    def test_a_release_without_a_result_fails(self, tmp_path, capsys):
        prepare(tmp_path, wait_seconds=0.05)
        files = [str(tmp_path / "agreement.json"), "--keys", str(tmp_path / "one.keys")]
        files += ["--receipts", str(tmp_path / "receipts")]
        assert main(["serve", *files, "--server", "one", "--poll-seconds", "0.01"]) == 1
        assert "failed: round 0 was refused: silo north has sent nothing" in capsys.readouterr().err
