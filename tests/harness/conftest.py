"""Paired items made by hand, and tiny checkpoints on disk for the harness to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.api.instance import Instance

from tests import families


def paired_doc(number: int, passage: str = "The river runs north for 210 kilometres.") -> dict[str, Any]:
    near = ["210 kilometres", "north", "the river", "a longer answer of many words"]
    return {
        "item_id": f"hand/en/{number}",
        "dataset": "hand",
        "language": "en",
        "cluster": f"p{number}",
        "prompt": f"Passage: {passage}\nQuestion: How long is river {number}?\nAnswer:",
        "choices_near": near,
        "gold_near": 0,
        "choices_far": ["210 kilometres", "1999", "Anna Berg", "in March"],
        "gold_far": 0,
        "max_gen_toks": 12,
    }


def choice_requests(docs: list[dict[str, Any]]) -> list[Instance]:
    made = []
    for doc_id, doc in enumerate(docs):
        for choices in (doc["choices_near"], doc["choices_far"]):
            arguments = [(doc["prompt"], f" {choice}") for choice in choices] + [
                ("", f" {choice}") for choice in choices
            ]
            made += [
                Instance("loglikelihood", doc, pair, k, metadata=("hand_mc", doc_id, 1))
                for k, pair in enumerate(arguments)
            ]
    return made


def answer_requests(docs: list[dict[str, Any]], **arguments: Any) -> list[Instance]:
    settings = {"until": [], "do_sample": False, "max_gen_toks": 12, **arguments}
    return [
        Instance("generate_until", doc, (doc["prompt"], dict(settings)), 0, metadata=("hand_gen", n, 1))
        for n, doc in enumerate(docs)
    ]


def saved_bart(folder: Path, kind: Any, config: Any, **changes: Any) -> str:
    """Save a tiny model of BART's shape with a tokenizer."""
    small: dict[str, Any] = {"vocab_size": families.VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    small |= {"d_model": 16, "max_position_embeddings": 512, "init_std": 0.3, "forced_eos_token_id": None}
    for part in ("encoder", "decoder"):
        small |= {f"{part}_layers": 2, f"{part}_attention_heads": 2, f"{part}_ffn_dim": 16}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        kind(config(**{**small, **changes})).eval().save_pretrained(folder)
    families.tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Return a function: family -> folder of a saved tiny model with its tokenizer."""
    root = tmp_path_factory.mktemp("tiny")
    made: dict[str, str] = {}

    def folder(family: str) -> str:
        if family not in made:
            made[family] = str(families.save_tiny(family, root / family))
        return made[family]

    return folder
