"""Searches that share their forwards: each sees its own rows, whoever else goes on."""

import pytest
import torch

from lm_eval_illusion.harness.branching import Limits
from lm_eval_illusion.harness.model import PrunedHFLM
from lm_eval_illusion.harness.ranks import greedy
from lm_eval_illusion.harness.together import Moves, together
from tests.harness.probes import Never, Table, every_probe, told


class Recorder:
    """Branches that answer each row with its own history of tokens, as numbers."""

    def __init__(self):
        self.rows, self.steps = [()], []

    def follow(self, parents, tokens):
        self.steps.append((list(parents), list(tokens)))
        self.rows = [(*self.rows[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        return torch.tensor([[float("".join(map(str, row)))] for row in self.rows])


def walker(moves):
    """Make the moves given, and return the histories that were sent."""
    seen = []
    for parents, tokens in moves:
        logits = yield Moves(parents, tokens)
        seen.append(logits[:, 0].tolist())
    return seen


def test_each_search_is_sent_its_own_rows_and_others_going_does_not_disturb_it():
    recorder = Recorder()
    found = together(
        [
            walker([([0, 0], [1, 2]), ([1, 1, 0], [3, 4, 5]), ([2], [6])]),
            walker([([0], [7])]),
            walker([]),
            walker([([0, 0], [8, 9]), ([0, 1], [8, 9]), ([1, 0], [1, 2])]),
        ],
        recorder,
    )
    assert found == [
        [[1, 2], [23, 24, 15], [156]],
        [[7]],
        [],
        [[8, 9], [88, 99], [991, 882]],
    ]
    assert recorder.steps == [
        ([0, 0, 0, 0, 0], [1, 2, 7, 8, 9]),
        ([1, 1, 0, 3, 4], [3, 4, 5, 8, 9]),
        ([2, 4, 3], [6, 1, 2]),
    ]


def test_what_searches_have_said_alike_is_one_row_until_they_part():
    recorder = Recorder()
    found = together(
        [
            walker([([0], [1]), ([0], [2]), ([0], [3])]),
            walker([([0, 0], [1, 5]), ([0, 1], [2, 2]), ([1, 0], [4, 3])]),
            walker([([0, 0], [5, 1]), ([0, 1], [2, 2])]),
        ],
        recorder,
    )
    assert found == [[[1], [12], [123]], [[1, 5], [12, 52], [524, 123]], [[5, 1], [52, 12]]]
    assert recorder.steps == [([0, 0], [1, 5]), ([0, 1], [2, 2]), ([0, 1], [3, 4])]


def test_no_search_runs_nothing():
    assert together([], Recorder()) == []


def test_a_search_that_needs_no_step_is_done_at_once():
    table = Table({})
    (found,) = together([greedy(torch.tensor([[0.0, 1.0]]), limits=Limits(1, frozenset()), rule=Never())], table)
    assert (found.tokens, table.steps) == ((1,), [])


def test_where_memory_runs_out_probes_take_turns(tiny, monkeypatch, caplog):
    from lm_eval_illusion.harness import probing

    lm = PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="none")
    expected = told(lm.generate_until(every_probe(), True))
    numbers = []

    def short_of_memory(searches, branches):
        numbers.append(len(searches))
        if len(searches) > 1:
            raise torch.OutOfMemoryError
        return together(searches, branches)

    monkeypatch.setattr(probing, "together", short_of_memory)
    found = told(lm.generate_until(every_probe(), True))
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert sorted(numbers) == [1] * 12 + [4] * 3
    assert "out of memory with 4 probes of a prompt at once" in caplog.text
    monkeypatch.setattr(probing, "together", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError))
    with pytest.raises(torch.OutOfMemoryError):
        lm.generate_until(every_probe()[:1], True)
