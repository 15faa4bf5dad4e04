import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms import mwem as module
from spark_jobs.papers.histograms.mwem import MAX_ROUNDS, WeightedCells, members, queries, rounds
from tests.support.neighbouring import neighbouring
from tests.support.transcripts import Transcripts

LINE = np.array([3, 0, 0, 40, 1, 0, 2, 7, 90, 4, 0, 0])
GRID = LINE.reshape(3, 4)


@pytest.mark.parametrize("counts", [LINE, GRID], ids=["line", "grid"])
def test_queries_count_their_members(counts):
    answers = queries(counts)
    assert answers.size == counts.size - 1
    assert answers.tolist() == [counts[members(counts.shape, query)].sum() for query in range(answers.size)]


@given(st.lists(st.tuples(st.integers(0, 10), st.floats(0, 150)), min_size=1, max_size=6), st.integers(1, 4))
def test_weights_of_groups_learn_as_weights_of_cells_would(answers, passes):
    learned = WeightedCells.uniform(GRID.shape, 147.0)
    plain = np.full(GRID.shape, 147.0 / 12)
    seen = []
    for query, answer in answers:
        learned.take(members(GRID.shape, query), answer)
        learned.learn(passes)
        seen.append((members(GRID.shape, query), min(answer, 147.0)))
        for _ in range(passes):
            for inside, goal in seen:
                plain = plain * np.where(inside, np.exp((goal - plain[inside].sum()) / (2 * 147.0)), 1.0)
                plain *= 147.0 / plain.sum()
    np.testing.assert_allclose(learned.cells(), plain, rtol=1e-9)


def test_an_answer_that_no_table_gives_does_not_run_away():
    learned = WeightedCells.uniform((4,), 10.0)
    learned.take(members((4,), 0), 1e12)
    learned.learn(2000)
    assert np.isfinite(learned.cells()).all()
    assert learned.cells().sum() == pytest.approx(10.0)


@pytest.mark.sampled("counts", "neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("counts", [LINE, GRID], ids=["line", "grid"])
@pytest.mark.parametrize(
    ("neighbours", "public"),
    [(Neighbours.ADD_REMOVE, False), (Neighbours.REPLACE_ONE, False), (Neighbours.REPLACE_ONE, True)],
)
def test_no_neighbour_costs_more_than_epsilon(monkeypatch, counts, neighbours, public):
    """Noise by what is asked, choices by their exact probabilities: brute force over neighbours."""
    monkeypatch.setattr(module, "rounds", lambda worth, cells: 3)

    def run(table, noise):
        options = {"epsilon": 1, "neighbours": neighbours, "noise": noise, "public_total": public}
        release_histogram(table, method="mwem", **options)

    transcripts = Transcripts(run, lambda chooser: monkeypatch.setattr(module, "exponential_mechanism", chooser))
    losses = [transcripts.worst(counts, other, SeededNoise(7)) for other in neighbouring(counts, neighbours)]
    # replacing one row moves scores less than the mechanism must fear
    assert 0.5 < max(losses) <= 1


def test_a_score_moves_by_one_row_and_is_whole(monkeypatch):
    def run(table, noise):
        release_histogram(table, epsilon=1, noise=noise, method="mwem")

    transcripts = Transcripts(run, lambda chooser: monkeypatch.setattr(module, "exponential_mechanism", chooser))
    drawn = transcripts.draw(LINE, SeededNoise(3))
    moved = []
    for other in neighbouring(LINE, Neighbours.ADD_REMOVE):
        _, chooser = transcripts.replay(other, drawn)
        for one, again in zip(drawn[1].made, chooser.made, strict=True):
            assert one.scores.dtype.kind == "i"
            moved.append(np.abs(one.scores - again.scores).max())
    assert max(moved) == 1


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("counts", [np.repeat([0, 900, 30, 0], 64), np.kron([[0, 90], [3, 0]], np.ones((8, 8), int))])
def test_it_learns_what_a_spread_total_does_not_know(counts):
    def error(name):
        made = [release_histogram(counts, epsilon=1, noise=SeededNoise(s), method=name).cells for s in range(3)]
        return np.mean([np.abs(queries(cells) - queries(counts)).mean() for cells in made])

    assert error("mwem") < error("uniform") / 10


def test_the_total_is_noisy_unless_it_is_public():
    made = [
        release_histogram(LINE, epsilon=1, noise=SeededNoise(seed), method="mwem").cells.sum() for seed in (1, 2, 3)
    ]
    assert len(set(np.round(made, 6))) > 1
    known = {"neighbours": Neighbours.REPLACE_ONE, "public_total": True, "noise": SeededNoise(1), "method": "mwem"}
    assert release_histogram(LINE, epsilon=1, **known).cells.sum() == pytest.approx(LINE.sum())
    single = release_histogram(LINE[3:4], epsilon=1, noise=SeededNoise(1), method="mwem")
    assert (single.epsilon, [event.label for event in single.spendings]) == (1, ["noisy total"])


def test_rounds_grow_with_what_they_can_learn():
    assert [rounds(worth, 4096) for worth in (0.01, 300, 3000, 1e9)] == [1, 5, 23, MAX_ROUNDS]
