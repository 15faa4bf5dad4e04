"""Two servers answer how many of all silos' rows lie below points, from keys that each silo sends once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.contract.store.objects import open_store
from spark_jobs.diagnostics import cdf_points
from spark_jobs.federation import answering
from spark_jobs.federation.agreement import Keys
from spark_jobs.federation.answering import Answering, hidden, key_words, opened_keys
from spark_jobs.federation.comparison import comparison_keys, evaluate, packed, packed_size, unpacked
from spark_jobs.federation.exchange import FederationFailed, Silo, share_uri
from spark_jobs.federation.messages import Header, MessageRejected, context, encrypt, sign
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.federation.serving import Summing
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.federated import SERVERS, SILOS, prepare
from tests.support.federated_points import AMOUNTS, CELLS, POINTS, SILO_ROWS, counted, serving, together

NOISE = 3
TERMS = {"epsilon": "1", "l1_sensitivity": cdf_points.DIAGNOSTIC.call(epsilon=1, **POINTS).evaluations(CELLS)}
PLACES = "receipts/{}/*/evaluations-0/*"


@pytest.fixture
def constant_noise(monkeypatch):
    """Each server adds 3 to each number, so that two servers add 6."""
    monkeypatch.setattr(NoiseShare, "draw", lambda share, shape, *, noise: np.full(shape, NOISE))


class Shifted(SeededNoise):
    """The same noise, on a pooled table."""

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return np.asarray(values) + 2 * NOISE


def plain(draw):
    return json.dumps({name: value for name, value in codec.encode(draw).items() if name != "guarantee"})


@pytest.mark.parametrize(("size", "bits"), [(1, 1), (7, 3), (64, 12)])
def test_what_is_packed_is_unpacked(size, bits):
    values = np.random.default_rng(1).integers(0, 1 << bits, size)
    points = np.arange((1 << bits) + 1)[:40]
    pair = comparison_keys(values, bits=bits, noise=SeededNoise(1))
    for keys in pair:
        assert packed(keys).shape == (packed_size(size, bits),)
        again = unpacked(packed(keys), server=keys.server, size=size, bits=bits)
        np.testing.assert_array_equal(evaluate(keys, points), evaluate(again, points))
    assert 64 * packed_size(size, bits) < size * (128 + 194 * (bits + 1) + 64) + 64


@pytest.mark.parametrize("shape", [(), (5,), (5, 3, 1)])
def test_keys_without_number_and_bits_are_rejected(shape):
    with pytest.raises(MessageRejected, match="no number and bits"):
        key_words(shape)


@pytest.mark.parametrize(("words", "shape"), [(10, (5, 3)), (packed_size(5, 3), (5, 4)), (3, (0, 0)), (0, (1, 99))])
def test_a_vector_of_another_length_is_rejected(words, shape):
    with pytest.raises(MessageRejected, match=f"the keys of west are not {shape[0]} of {shape[1]} bits"):
        opened_keys(np.zeros(words, np.uint64), shape, server=0, sender="west")


def test_rows_are_hidden_in_a_public_number_of_keys():
    for most, expected in ((8, [0, 0, 2, 2, 2, 3, 7, 7]), (4, [0, 0, 2, 2])):
        values, bits = hidden(np.array([2, 0, 3, 1]), most)
        assert (values.tolist(), bits) == (expected, 3)


@pytest.mark.parametrize("most", [1, 4, 6, 20])
@pytest.mark.parametrize("added", range(4))
def test_a_row_more_changes_no_number_by_more_than_one(added, most):
    """Even where there are more rows than keys."""
    table, more = np.array([2, 0, 3, 1]), np.eye(4, dtype=int)[added]
    below = [[int((hidden(counts, most)[0] < edge).sum()) for edge in range(5)] for counts in (table, table + more)]
    assert set(np.subtract(below[1], below[0])) <= {0, 1}


def test_the_draw_is_that_of_the_pooled_table(tmp_path, constant_noise):
    draws, _ = together(*prepare(tmp_path), tmp_path)
    expected = cdf_points.measure(counted(*SILOS), epsilon=1, noise=Shifted(1), **POINTS)
    assert {plain(draw) for draw in draws.values()} == {plain(expected)}
    released = cdf_points.summarise(draws["north"], seed=1)
    assert released.rows == sum(amounts.size for amounts in AMOUNTS.values()) + 2 * NOISE
    assert released.guarantee == "differentially private"


def test_each_server_adds_the_whole_noise_of_all_evaluations(tmp_path, monkeypatch):
    laws = []
    monkeypatch.setattr(answering, "NoiseShare", lambda **law: laws.append(law) or NoiseShare(**law))
    together(*prepare(tmp_path, silos_per_person=2), tmp_path)
    expected = {"epsilon": "1", "l1_sensitivity": 2 * TERMS["l1_sensitivity"], "contributors": 2, "colluding": 1}
    assert laws == [expected] * len(laws)
    assert laws


def test_whoever_asks_again_gets_the_same_numbers(tmp_path):
    agreement, keys = prepare(tmp_path)
    first, _ = together(agreement, keys, tmp_path)
    places = sorted(path.read_bytes() for path in tmp_path.glob(PLACES.format("*")))
    again, _ = together(agreement, keys, tmp_path)
    for server in agreement.servers:  # a store that loses everything gets the same noise again
        for path in Path(server.folder).glob("*/*"):
            path.unlink()
    lost, _ = together(agreement, keys, tmp_path)
    assert plain(first["north"]) == plain(again["north"]) == plain(lost["south"])
    assert sorted(path.read_bytes() for path in tmp_path.glob(PLACES.format("*"))) == places


def test_more_is_answered_later_until_nothing_is_left(tmp_path, constant_noise):
    below = np.concatenate([[0], np.cumsum(counted(*SILOS).counts)])
    agreement, keys = prepare(tmp_path)
    draws, _ = together(agreement, keys, tmp_path)
    spare = [edge for edge in range(1, 256, 5) if edge not in draws["north"].edges]
    left = draws["north"].evaluations - draws["north"].edges.size
    assert left >= POINTS["more_evaluations"]
    _, (one, all_of_them) = together(agreement, keys, tmp_path, later=[spare[:1], spare[:left]])
    assert one.tolist() == (below[spare[:1]] + 2 * NOISE).tolist()
    assert all_of_them.tolist() == (below[spare[:left]] + 2 * NOISE).tolist()
    assert len(list(tmp_path.glob(PLACES.format("one")))) == draws["north"].evaluations


def test_more_than_is_paid_for_is_refused_in_one_line_and_the_rest_stays(tmp_path, constant_noise):
    agreement, keys = prepare(tmp_path)
    draws, _ = together(agreement, keys, tmp_path)
    left = draws["north"].evaluations - draws["north"].edges.size
    spare = [edge for edge in range(1, 256, 5) if edge not in draws["north"].edges]
    _, (refused, one) = together(agreement, keys, tmp_path, later=[spare[: left + 1], spare[:1]])
    paid = TERMS["l1_sensitivity"]
    wanted = f"{left + 1} more evaluations are requested, but only {left} of the {paid} evaluations"
    assert wanted in str(refused)
    assert one.shape == (1,)


def answering_server(folder, evaluations):
    header = Header(
        agreement="0" * 64, kind="keys", turn=0, sender="north", recipient="", epsilon="1", l1_sensitivity=evaluations
    )
    silo_keys = [comparison_keys(np.arange(4), bits=3, noise=SeededNoise(1))[0]]
    own = {"keys": Keys.from_text(f"{'1' * 64} {'2' * 64}"), "receipt": bytes(32), "silos_per_person": 1}
    return Answering(silo_keys=silo_keys, header=header, places=str(folder), **own)


def test_two_processes_of_a_server_answer_no_more_than_is_paid_for(tmp_path):
    first, second = answering_server(tmp_path, 2), answering_server(tmp_path, 2)
    first.answer(np.array([1]))
    second.answer(np.array([5]))
    assert (first.left, second.left) == (0, 0)
    np.testing.assert_array_equal(first.answer(np.array([5, 1])), second.answer(np.array([5, 1])))
    for each in (first, second, answering_server(tmp_path, 2)):
        with pytest.raises(MessageRejected, match="1 more evaluations are requested, but only 0 of the 2"):
            each.answer(np.array([3]))


def sends(agreement, keys, **changed):
    """A silo that sends both servers keys which are not right."""

    def play(name):
        fields = {"kind": "keys", "shape": (SILO_ROWS, CELLS.bit_length()), **TERMS}
        fields |= {key: value for key, value in changed.items() if key != "words"}
        for server in agreement.servers:
            header = Header(agreement=agreement.sha256, turn=0, sender=name, recipient=server.name, **fields)
            share = np.zeros(changed.get("words", packed_size(*fields["shape"])), np.uint64)
            content = sign(
                header, encrypt(share, tag=bytes(32), recipient=server, context=context(header)), keys=keys[name]
            )
            open_store(server.folder).create(share_uri(server, 0, name), content)
        raise FederationFailed("cheated")

    return {"west": play}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": 5}, "a vector of west has another length than its header says"),
        ({"shape": (5, 9)}, "the silos measure different things"),
        ({"l1_sensitivity": 1}, "the silos measure different things"),
        ({"epsilon": "2"}, "the silos measure different things"),
        ({"kind": "share"}, "the silos measure different things"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_keys_that_are_not_right_end_the_release(tmp_path, changed, message):
    agreement, keys = prepare(tmp_path, wait_seconds=3)
    outcomes, _ = together(agreement, keys, tmp_path, roles=sends(agreement, keys, **changed))
    assert all(message in str(outcomes[name]) for name in SILOS[:2]), outcomes


def asking(agreement, keys, **terms):
    """A silo that asks for a point on terms of its own."""

    def play(name):
        silo = Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.005)
        silo.deposit(counted(name).counts, epsilon="0.5", evaluations=4, capacity=SILO_ROWS)
        asked = {"epsilon": "0.5", "l1_sensitivity": 4, **terms}
        return silo.ask(Header(agreement="", kind="keys", turn=0, sender="", recipient="", **asked), np.array([999]))

    return dict.fromkeys(SILOS, play)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"l1_sensitivity": 1}, "differ from the terms of the keys"),
        ({"epsilon": "5"}, "differ from the terms of the keys"),
        ({}, "points: must be from 0 to 512"),
    ],
)
def test_questions_that_are_not_right_are_refused(tmp_path, terms, message):
    agreement, keys = prepare(tmp_path)
    outcomes, _ = together(agreement, keys, tmp_path, roles=asking(agreement, keys, **terms))
    assert all(message in str(outcome) for outcome in outcomes.values()), outcomes


def test_what_a_silo_has_shared_stands_though_its_rows_have_changed(tmp_path, monkeypatch):
    agreement, keys = prepare(tmp_path, wait_seconds=3)
    first, _ = together(agreement, keys, tmp_path)
    monkeypatch.setitem(AMOUNTS, "south", AMOUNTS["south"] + 1)
    again, _ = together(agreement, keys, tmp_path)
    assert {name: codec.encode(again[name]) for name in SILOS} == {name: codec.encode(first[name]) for name in SILOS}


def test_comparisons_need_two_servers(tmp_path):
    agreement, keys = prepare(tmp_path)
    third = agreement.servers[1].model_copy(
        update={**Keys.generate().public("three").model_dump(), "folder": str(tmp_path / "three")}
    )
    server = serving(agreement.model_copy(update={"servers": (*agreement.servers, third)}), keys, tmp_path, "one")
    with pytest.raises(MessageRejected, match="comparisons need two servers"):
        server._answering_with([])


def test_nothing_can_be_asked_before_the_release_has_ended(tmp_path):
    agreement, keys = prepare(tmp_path)
    with pytest.raises(FederationFailed, match="the release must have ended, and must have keys of comparisons"):
        Silo(agreement=agreement, keys=keys["south"], silo="south").resumed()


def test_a_servers_keys_and_shares_look_uniform_whatever_the_silos_hold(tmp_path, monkeypatch):
    """The keys' law is in ``test_comparison``; here, all that one server has of a whole release."""
    seen, original = {}, Summing._answering_with
    monkeypatch.setattr(Summing, "_answering_with", lambda own, sent: seen.setdefault(own.server, original(own, sent)))
    together(*prepare(tmp_path), tmp_path)
    assert set(seen) == set(SERVERS)
    for server, _ in seen.values():
        sums = np.sum([evaluate(own, np.arange(CELLS)) for own in server.silo_keys], axis=0, dtype=np.uint64)
        assert (np.minimum(sums, -sums) > 2**40).all()  # of 256 residues modulo 2^64
        words = np.concatenate([packed(own) for own in server.silo_keys])
        # one bit in 128 of each seed is always 0, whatever is hidden
        assert abs(np.unpackbits(words.view(np.uint8)).mean() - 0.5) < 0.005


def test_both_servers_see_the_same_number_of_keys_whatever_the_silos_hold(tmp_path, monkeypatch):
    sizes = []
    for rows in (0, 2000):
        monkeypatch.setitem(AMOUNTS, "north", np.full(rows, 5.0))
        (tmp_path / str(rows)).mkdir()
        agreement, keys = prepare(tmp_path / str(rows))
        together(agreement, keys, tmp_path / str(rows))
        sizes.append([Path(server.folder, "0", "share-of-north").stat().st_size for server in agreement.servers])
    assert sizes[0] == sizes[1]
