"""The server learns the sum of those who stayed, whoever drops out, and nothing from fewer than the threshold."""

import dataclasses

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.masked import Party, Session, unmasked_sum

SESSION = Session(name="a request", parties=5, threshold=3)
VECTORS = np.random.default_rng(6).integers(-100, 10_000, (5, 2, 40))


class Meeting:
    """All messages of one session up to the masked vectors."""

    def __init__(self, session=SESSION, vectors=VECTORS):
        self.session = session
        self.parties = [Party.join(session, number) for number in range(session.parties)]
        self.introductions = [party.introduction() for party in self.parties]
        sent = [party.envelopes(self.introductions) for party in self.parties]
        self.received = [{sender: sent[sender][number] for sender in range(len(sent))} for number in range(len(sent))]
        self.masked = {p.number: p.masked(vectors[p.number], self.introductions) for p in self.parties}

    def disclosed(self, number, arrived):
        return self.parties[number].disclose(self.received[number], self.introductions, arrived=arrived)

    def summed(self, arrived, *, answering=None):
        disclosures = [self.disclosed(number, arrived) for number in (answering or sorted(arrived))]
        vectors = {number: self.masked[number] for number in arrived}
        return unmasked_sum(self.session, vectors, self.introductions, disclosures)


@pytest.fixture
def meeting():
    return Meeting()


@pytest.mark.parametrize("arrived", [{0, 1, 2, 3, 4}, {0, 1, 2, 3}, {1, 3, 4}, {0, 2, 4}])
def test_the_sum_of_those_who_stayed(meeting, arrived):
    np.testing.assert_array_equal(meeting.summed(arrived), VECTORS[sorted(arrived)].sum(axis=0))


def test_any_threshold_of_answers_suffices(meeting):
    everybody = set(range(5))
    np.testing.assert_array_equal(meeting.summed(everybody, answering=[4, 0, 2]), VECTORS.sum(axis=0))


def test_a_masked_vector_shows_nothing_of_the_vector(meeting):
    for vector in meeting.masked.values():
        assert vector.min() > 2**40  # no count is that large
    again = Meeting().masked
    assert all(not np.array_equal(meeting.masked[number], again[number]) for number in again)


def test_secrets_of_a_party_are_never_both_disclosed(meeting):
    disclosure = meeting.disclosed(0, {0, 1, 2})
    assert set(disclosure.own) == {0, 1, 2}
    assert set(disclosure.pairwise) == {3, 4}
    assert "own=" not in repr(disclosure)
    assert repr(meeting.parties[0]) == f"Party(session={SESSION!r}, number=0)"


def test_shares_below_the_threshold_say_nothing_of_a_secret(meeting):
    """Two answers of three open another secret, and another sum: a further share decides between all values."""
    everybody = set(range(5))
    disclosures = [meeting.disclosed(number, everybody) for number in (0, 1, 2)]
    guessed = dataclasses.replace(disclosures[2], own={n: share + 1 for n, share in disclosures[2].own.items()})
    wrong = unmasked_sum(SESSION, meeting.masked, meeting.introductions, [*disclosures[:2], guessed])
    assert not np.any(wrong == VECTORS.sum(axis=0))


@pytest.mark.parametrize("threshold", [0, 2, 6])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(InvalidRequest, match=f"threshold: got {threshold}; must be above 2.5 and at most 5"):
        Session(name="s", parties=5, threshold=threshold)


def test_too_few_parties_are_refused(meeting):
    with pytest.raises(InvalidRequest, match="arrived: got '2 parties'; must be of at least 3 parties"):
        meeting.disclosed(0, {0, 1})
    with pytest.raises(InvalidRequest, match="disclosures: got '1 parties'"):
        unmasked_sum(SESSION, meeting.masked, meeting.introductions, [meeting.disclosed(0, set(range(5)))])
    with pytest.raises(InvalidRequest, match="vectors: got '1 parties'"):
        unmasked_sum(SESSION, {0: meeting.masked[0]}, meeting.introductions, [])
    with pytest.raises(InvalidRequest, match="introductions: got '2 parties'"):
        meeting.parties[0].envelopes(meeting.introductions[:2])


def test_disclosures_for_other_vectors_are_not_counted(meeting):
    everybody = set(range(5))
    disclosures = [meeting.disclosed(0, everybody), meeting.disclosed(1, everybody), meeting.disclosed(2, {0, 1, 2})]
    for answers in (disclosures, [*disclosures[:2], disclosures[0]]):
        with pytest.raises(InvalidRequest, match="disclosures: got '2 parties'"):
            unmasked_sum(SESSION, meeting.masked, meeting.introductions, answers)


def test_a_party_answers_one_list_of_absent_parties(meeting):
    """The answers to two lists together open what each of them hides: here, the vector of a party that was there."""
    first = [meeting.disclosed(number, {0, 1, 2, 3}) for number in (0, 1, 2)]
    assert meeting.disclosed(0, {0, 1, 2, 3}) == first[0], "the same list again, as after a lost message"
    for number, arrived in ((0, {0, 1, 2, 4}), (1, {0, 1, 2}), (2, set(range(5)))):
        with pytest.raises(InvalidRequest, match="arrived: must be the list that this party has already answered"):
            meeting.disclosed(number, arrived)
    others = [*meeting.introductions[:4], Party.join(SESSION, 4).introduction()]
    with pytest.raises(InvalidRequest, match="arrived: must be the list that this party has already answered"):
        meeting.parties[0].disclose(meeting.received[0], others, arrived={0, 1, 2, 3})


def test_a_party_that_introduces_itself_twice_is_refused(meeting):
    with pytest.raises(InvalidRequest, match="introductions: .*must be of different parties"):
        meeting.parties[0].envelopes([*meeting.introductions, meeting.introductions[0]])


@pytest.mark.parametrize("fault", ["changed", "missing", "short", "another recipient's", "another session's"])
def test_a_damaged_envelope_is_refused(meeting, fault):
    sealed = dict(meeting.received[0])
    if fault == "missing":
        del sealed[2]
    else:
        sealed[2] = {
            "changed": sealed[2][:-1] + bytes([sealed[2][-1] ^ 1]),
            "short": sealed[2][:5],
            "another recipient's": meeting.received[1][2],
            "another session's": Meeting(dataclasses.replace(SESSION, name="another")).received[0][2],
        }[fault]
    with pytest.raises(InvalidRequest, match="envelope of party 2: must be as that party sealed it"):
        meeting.parties[0].disclose(sealed, meeting.introductions, arrived={0, 1, 2})
