"""Where an answer ends: stock's own rule token by token, the first line, and what a token may hold."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval.models.utils_hf import MultiTokenEOSCriteria
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from lm_eval_illusion.harness.generation_stop import FirstLine, StopStrings
from lm_eval_illusion.harness.generation_tokens import TokenBytes
from lm_eval_illusion.pairs.reading import line_complete
from tests import families

STOPS = ["\n", "\n\n", " a", "ab", "é", "</s>", "की", "中\n", ": ", "\ufffd", ""]


def pieces_tokenizer(*, strip: bool) -> PreTrainedTokenizerFast:
    """Pieces with byte fallback, as Gemma's (or, with a stripped start, Llama 2's)."""
    pieces = ["<pad>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "\n", "\n\n", "a", "b", "▁a", "▁ab", "é", ":", "की", "中", "▁▁", "<0x0", "b\na"]
    core = Tokenizer(models.BPE(vocab={piece: n for n, piece in enumerate(pieces)}, merges=[], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """T5's decoder."""
    tokenizer = pieces_tokenizer(strip=False)
    tokenizer.backend_tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def words_tokenizer() -> PreTrainedTokenizerFast:
    """A decoder that puts spaces where no token has one: nothing may be assumed of its tokens."""
    pieces = ["<pad>", "<s>", "</s>", "[UNK]", "a", "b", "ab", "##a", ":", "\n"]
    core = Tokenizer(models.WordPiece(vocab={piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    core.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


TOKENIZERS = {
    "byte_level": families.tiny_tokenizer(),
    "pieces": pieces_tokenizer(strip=False),
    "stripped": pieces_tokenizer(strip=True),
    "metaspace": metaspace_tokenizer(),
    "words": words_tokenizer(),
}


def drawn(name: str):
    """Tokens with many newlines, partial characters and special tokens among them."""
    tokenizer = TOKENIZERS[name]
    wanted = {"\n", "a", "é", "中", " ", "की", "ab", "b\na"}
    likely = [t for t in range(len(tokenizer)) if tokenizer.decode([t]) in wanted] + [2]
    if name != "words":
        likely += [t for text in ("की", "中\n") for t in tokenizer.encode(text, add_special_tokens=False)]
    return st.lists(st.one_of(st.sampled_from(likely), st.integers(0, len(tokenizer) - 1)), min_size=1, max_size=12)


def stock_end(tokenizer, tokens: list[int], stops: list[str], start: int = 0) -> int | None:
    """After how many new tokens stock `generate` stops at batch size 1."""
    criteria = [MultiTokenEOSCriteria(stop, tokenizer, start, 1) for stop in stops]
    for count in range(1, len(tokens) + 1):
        if any([rule(torch.tensor([tokens[:count]]), None) for rule in criteria]):
            return count
    return None


def our_end(rule, tokens: list[int]) -> int | None:
    return next((count for count in range(1, len(tokens) + 1) if rule.ended(tokens[:count])), None)


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_stops_where_stock_stops(name, data):
    tokenizer, tokens = TOKENIZERS[name], data.draw(drawn(name))
    stops = data.draw(st.lists(st.sampled_from(STOPS), min_size=1, max_size=3, unique=True))
    assert our_end(StopStrings(tokenizer, stops, TokenBytes(tokenizer)), tokens) == stock_end(tokenizer, tokens, stops)


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_the_first_line_ends_where_the_whole_text_says(name, data):
    tokenizer, tokens = TOKENIZERS[name], data.draw(drawn(name))
    texts = [tokenizer.decode(tokens[: n + 1], skip_special_tokens=True) for n in range(len(tokens))]
    whole = next((n + 1 for n, text in enumerate(texts) if line_complete(text)), None)
    rule = FirstLine(tokenizer, TokenBytes(tokenizer))
    assert our_end(rule, tokens) == whole
    assert rule.text(tokens[: whole or len(tokens)]) == texts[(whole or len(tokens)) - 1]


def test_a_stop_string_over_several_tokens_is_found_when_it_is_complete():
    tokenizer = TOKENIZERS["byte_level"]
    tokens = [
        t for text in ("x", "Qu", "est", "ion", ":", "y") for t in tokenizer.encode(text, add_special_tokens=False)
    ]
    rule = StopStrings(tokenizer, ["Question:"], TokenBytes(tokenizer))
    ended = our_end(rule, tokens)
    assert ended is not None
    assert tokenizer.decode(tokens[:ended]) == "xQuestion:"


def test_a_stop_string_whose_last_character_is_split_over_tokens_is_found():
    tokenizer = TOKENIZERS["byte_level"]
    tokens = tokenizer.encode("中国 है 강\n", add_special_tokens=False)
    for stop in ("国", "है", "강"):
        ended = our_end(StopStrings(tokenizer, [stop], TokenBytes(tokenizer)), tokens)
        assert tokenizer.decode(tokens[:ended]).endswith(stop)


def test_only_texts_that_may_have_ended_are_decoded(monkeypatch):
    tokenizer = families.tiny_tokenizer()
    tokens = tokenizer.encode("The river runs north\nand", add_special_tokens=False)
    holders = [n for n, token in enumerate(tokens) if "\n" in tokenizer.decode([token])]
    decoded: list[list[int]] = []
    monkeypatch.setattr(tokenizer, "decode", lambda ids, **how: decoded.append(list(ids)) or "")
    for rule in (StopStrings(tokenizer, ["\n"], TokenBytes(tokenizer)), FirstLine(tokenizer, TokenBytes(tokenizer))):
        decoded.clear()
        for count in range(1, len(tokens) + 1):
            rule.ended(tokens[:count])
        assert 1 <= len(decoded) <= 3 * len(holders)


def test_what_was_settled_is_not_decoded_again(monkeypatch):
    tokenizer = families.tiny_tokenizer()
    lines = [tokenizer.encode(text, add_special_tokens=False) for text in ("\n", "\n", "An\n")]
    rule, real, seen = FirstLine(tokenizer, TokenBytes(tokenizer)), tokenizer.decode, []
    monkeypatch.setattr(tokenizer, "decode", lambda ids, **how: seen.append(len(ids)) or real(ids, **how))
    tokens: list[int] = []
    for line in lines:
        for token in line:
            tokens.append(token)
            ended = rule.ended(tokens)
    assert ended
    assert rule.text(tokens) == "\n\nAn\n"
    assert sum(seen) == len(tokens)


@pytest.mark.parametrize(
    ("name", "text", "held"),
    [("byte_level", "\n", b"\n"), ("pieces", "▁ab", b" ab"), ("pieces", "<0xE4>", b"\xe4"), ("words", "a", None)],
)
def test_bytes_of_a_token(name, text, held):
    tokenizer = TOKENIZERS[name]
    token = tokenizer.convert_tokens_to_ids(text if name != "byte_level" else "Ċ")
    known = TokenBytes(tokenizer)
    assert known.of(token) == held
    assert known.may_hold(token, 0x0A) is (held is None or b"\n" in held)
    assert known.settles(token) is (held is not None and text != "<0xE4>")


def test_cleaned_up_texts_are_not_guessed_at():
    tokenizer = families.tiny_tokenizer()
    tokenizer.clean_up_tokenization_spaces = True
    assert TokenBytes(tokenizer).of(5) is None
