"""Rows of the probes made by hand, and models whose logits stand in a table."""

from __future__ import annotations

from typing import Any

import torch
from lm_eval.api.instance import Instance

from lm_eval_illusion.harness.model import PrunedHFLM
from tests.harness.conftest import paired_doc

CONDITIONS: dict[str, dict[str, Any]] = {
    "beam4": {"beams": 4},
    "beam8": {"beams": 8},
    "sample": {"samples": 8, "temperature": 0.8, "top_p": 0.95, "sample_seed": 0},
    "rank": {},
}


def probe_doc(number: int, condition: str, **changes: Any) -> dict[str, Any]:
    doc = paired_doc(number, "The river runs north. " * (1 + 3 * (number % 3)))
    return {
        **doc,
        "condition": condition,
        "max_gen_toks": 8,
        "gold_text": "210 kilometres",
        "answers": ["210 kilometres"],
        **CONDITIONS[condition],
        **changes,
    }


def probe_request(doc: dict[str, Any], **arguments: Any) -> Instance:
    settings = {"until": [], "do_sample": False, "max_gen_toks": doc["max_gen_toks"], **arguments}
    return Instance("generate_until", doc, (doc["prompt"], settings), 0, metadata=("hand_probe", 0, 1))


def every_probe(items: range = range(3)) -> list[Instance]:
    return [probe_request(probe_doc(number, condition)) for condition in CONDITIONS for number in items]


def told(answers: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(answer), answer.illusion) for answer in answers]


def pruned(folder: str, **options: Any) -> PrunedHFLM:
    return PrunedHFLM(pretrained=folder, device="cpu", **{"method": "none", **options})


class Table:
    """Branches whose next logits depend on the last token alone, by a table {token: logits}."""

    def __init__(self, rows: dict[int, list[float]]) -> None:
        self.rows = rows
        self.steps: list[int] = []
        """Rows of every forward."""

    def follow(self, parents: Any, tokens: Any) -> torch.Tensor:
        self.steps.append(len(tokens))
        return torch.tensor([self.rows[token] for token in tokens])

    def copy(self) -> Table:
        return self


class Deep:
    """Branches whose next logits are random, decided by all tokens so far and a seed."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self.vocabulary, self.seed = vocabulary, seed
        self.rows: list[tuple[int, ...]] = [()]

    def logits(self, tokens: tuple[int, ...]) -> torch.Tensor:
        number = self.seed
        for token in tokens:
            number = (number * 31 + token + 1) % (1 << 31)
        return 2 * torch.randn(self.vocabulary, generator=torch.Generator().manual_seed(number))

    def first(self) -> torch.Tensor:
        return self.logits(())[None]

    def follow(self, parents: Any, tokens: Any) -> torch.Tensor:
        self.rows = [(*self.rows[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        return torch.stack([self.logits(row) for row in self.rows])

    def copy(self) -> Deep:
        return Deep(self.vocabulary, self.seed)


class Never:
    """A rule that ends nothing."""

    def ended(self, tokens: Any) -> bool:
        return False


class At:
    """A rule that ends with one of some tokens."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def ended(self, tokens: Any) -> bool:
        return tokens[-1] in self.tokens


def nan_model(lm: PrunedHFLM) -> PrunedHFLM:
    with torch.no_grad():
        next(lm.model.model.layers[-1].parameters()).fill_(float("nan"))
    return lm
