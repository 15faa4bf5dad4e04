"""Masks and noise are derived from a secret and from everything that they apply to."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.federation import exchange, serving
from spark_jobs.federation.agreement import Keys
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.messages import Header
from tests.support.federated import SERVERS, SILOS, exchanged

KEYS = Keys.generate()
HEADER = Header(
    agreement="a", kind="share", turn=0, sender="north", recipient="one", shape=(2,), epsilon="1", l1_sensitivity=1
)
VECTORS = [np.array([1, 2], np.uint64), np.array([3, 4], np.uint64)]


def derive(keys=KEYS, purpose="noise", header=HEADER, vectors=VECTORS):
    return derived_key(keys, purpose, header=header, vectors=vectors)


def test_the_same_inputs_give_the_same_words():
    assert derive() == derive()
    np.testing.assert_array_equal(DerivedWords(derive()).words(5), DerivedWords(derive()).words(5))


@pytest.mark.parametrize(
    "changed",
    [
        {"keys": Keys.generate()},
        {"purpose": "masks"},
        *({"header": replace(HEADER, **changed)} for changed in (
            {"agreement": "b"}, {"turn": 1}, {"shape": (1, 2)}, {"epsilon": "2"}, {"l1_sensitivity": 2},
        )),
        {"vectors": VECTORS[::-1]},
        {"vectors": [VECTORS[0]]},
        {"vectors": [np.concatenate(VECTORS)]},
        {"vectors": [VECTORS[0], VECTORS[1] + np.uint64(1)]},
    ],
    ids=lambda changed: "-".join(changed),
)  # fmt: skip
def test_any_other_input_gives_others(changed):
    assert derive(**changed) != derive()


def test_each_participant_derives_from_its_own_secret_for_each_purpose(tmp_path, monkeypatch):
    """Whose keys, for what, in which round, of which vectors: a silo of its own, a server of the shares it received."""
    derived = []

    def spy(keys, purpose, *, header, vectors):
        derived.append((keys.to_text(), purpose, header.turn, len(list(vectors))))
        return derived_key(keys, purpose, header=header, vectors=vectors)

    for room in (exchange, serving):
        monkeypatch.setattr(room, "derived_key", spy)
    _, _, keys = exchanged({name: np.arange(3) for name in SILOS}, tmp_path)
    expected = [(keys[name].to_text(), purpose, 0, 1) for name in SILOS for purpose in ("tag", "masks")]
    expected += [(keys[name].to_text(), purpose, 0, 3) for name in SERVERS for purpose in ("receipt", "noise")]
    assert Counter(derived) == Counter(expected)
