"""When an answer is complete, and what its finish reason says."""

import pytest
import torch

from lm_eval_illusion.harness import generation
from tests import families


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ("\n\n", False),
        ("Paris", False),
        ("Paris\n", True),
        ("\nParis", False),
        ("\n \nParis\nand more", True),
        ("<think>Paris\n", False),
        ("<think>hm\n</think>\nParis", False),
        ("<think>hm</think>\nParis\n", True),
        ("\u200b\nParis", False),
        ("\u200b\nParis\n", True),
    ],
)
def test_a_line_is_complete_once_it_has_text_and_a_newline(text, complete):
    assert generation.line_complete(text) is complete


def scripted(monkeypatch, model, tokens_of_row):
    """Let a model say given tokens: row -> list of token ids, then the end-of-text token for ever."""
    eos = 2

    def forward(input_ids=None, attention_mask=None, **kwargs):
        step = forward.step
        forward.step += 1
        logits = torch.zeros(input_ids.shape[0], input_ids.shape[1], model.config.vocab_size)
        for row, tokens in enumerate(tokens_of_row):
            logits[row, -1, tokens[step] if step < len(tokens) else eos] = 9.0
        return original(input_ids=input_ids, attention_mask=attention_mask, **kwargs).__class__(logits=logits)

    forward.step = 0
    original = model.forward
    monkeypatch.setattr(model, "forward", forward)


def test_rows_end_by_line_by_end_token_or_by_the_limit(monkeypatch):
    model, tokenizer = families.build("gpt2"), families.tiny_tokenizer()
    words = [tokenizer.encode(t, add_special_tokens=False) for t in ("\nAn\nna", "ab", "abcabcabcabcabcabc")]
    scripted(monkeypatch, model, words)
    ids = torch.tensor([[1, 5, 6]] * 3)
    said = generation.generate(model, tokenizer, ids, torch.ones_like(ids), max_new_tokens=6)
    assert [answer.finish for answer in said] == ["stop", "stop", "length"]
    assert said[0].text.strip().split("\n")[0] == "An"
    assert said[1].text == "ab"
    assert not any(answer.non_finite for answer in said)


def test_text_equals_plain_generate_up_to_the_first_line():
    tokenizer = families.tiny_tokenizer()
    for family in ("llama", "gemma3", "t5"):
        model = families.build(family)
        ids = torch.tensor([[1, 20, 30, 40], [1, 50, 60, 70]])
        mask = torch.ones_like(ids)
        plain = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=10, do_sample=False, pad_token_id=0)
        start = 1 if family == "t5" else ids.shape[1]
        texts = tokenizer.batch_decode(plain[:, start:], skip_special_tokens=True)
        said = generation.generate(model, tokenizer, ids, mask, max_new_tokens=10)
        for text, answer in zip(texts, said, strict=True):
            assert text.startswith(answer.text)
            assert answer.text == text or generation.line_complete(answer.text)
