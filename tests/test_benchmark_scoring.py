"""The scoring benchmark asks options of exactly the lengths that its bounds are for."""

import argparse
from types import SimpleNamespace

import pytest

from tests.benchmark_scripts import benchmark
from tests.families import build, tiny_tokenizer


@pytest.mark.parametrize(("kind", "tokens"), [("options", 4), ("long-options", 8)])
@pytest.mark.parametrize("add_bos", [True, False])
def test_options_have_exactly_the_tokens_said_where_they_are_scored(kind, tokens, add_bos):
    from lm_eval.models.huggingface import HFLM

    choices = benchmark("choices")
    lm = HFLM(pretrained=build("llama"), tokenizer=tiny_tokenizer(add_bos=add_bos), device="cpu", max_length=4096)
    lm.tokenizer.model_max_length = 1 << 30
    prompts = ["Where is it?\nAnswer:", "Где это? 水\nОтвет:"]
    for prompt in prompts:
        options = choices.of_length(lm.tokenizer, prompt, 16, tokens)
        assert len(set(options)) == 16
        for instance in choices.instances([(prompt, options)]):
            assert len(lm._encode_pair(*instance.args)[1]) == tokens


@pytest.mark.parametrize("size", [2, 16])
def test_what_grows_has_as_many_options_as_asked(monkeypatch, size):
    choices = benchmark("choices")
    monkeypatch.setattr(choices, "questions", lambda *_: [("Where?", ["a", "b"]), ("Who?", ["c", "d"])])
    tokenizer = tiny_tokenizer()
    for kind, tokens in choices.OPTION_TOKENS.items():
        for prompt, options in choices.grown(tokenizer, None, kind, size):
            assert [choices.token_count(tokenizer, prompt, option) for option in options] == [tokens] * size


def test_a_tokenizer_that_gives_too_few_is_told():
    with pytest.raises(SystemExit, match=r"makes 40 options of exactly 4 tokens .*: expected 41; add words there"):
        benchmark("choices").of_length(lambda text: {"input_ids": text.split()}, "Where?", 41, 4)


class Side:
    """A worker that takes ten seconds, and one for each option, two where options are long."""

    def __init__(self, grow):
        self.kind, _, size = grow.partition("=")
        self.size = int(size)

    def once(self):
        return SimpleNamespace(seconds=10.0 + self.size * (1.0 if self.kind == "options" else 2.0))

    def close(self):
        pass


@pytest.mark.parametrize(("short", "kinds"), [(True, ["options"]), (False, ["options", "long-options"])])
def test_both_lengths_are_held_to_their_bounds(monkeypatch, capsys, short, kinds):
    scoring = benchmark("scoring")
    monkeypatch.setattr(scoring, "_worker", lambda options, side, grow: Side(grow))
    found = scoring.growth(argparse.Namespace(short=short, growth=None))
    assert [one["name"] for one in found if "bound" in one] == [f"growth with {kind}" for kind in kinds]
    said = capsys.readouterr().out
    assert "growth with options of exactly 4 tokens, seconds against those of 4: " in said
    assert "16: 1.86; bound of 16: 1.6 not met" in said
    assert (found[0]["tokens"], found[0]["bound"], found[0]["met"]) == (4, 1.6, False)
    assert ("long-options of exactly 8 tokens" in said) is not short
    if not short:
        assert (found[1]["tokens"], found[1]["bound"], found[1]["met"]) == (8, 1.9, False)
        monkeypatch.setitem(scoring.OPTION_BOUNDS, "options", 1.9)
        assert scoring.growth(argparse.Namespace(short=False, growth="options"))[0]["met"]
        assert "bound of 16: 1.9 met" in capsys.readouterr().out


def test_what_cannot_grow_is_refused():
    with pytest.raises(SystemExit, match=r"--growth wings: expected some of options, long-options, passage, items, or"):
        benchmark("scoring").growth(argparse.Namespace(short=True, growth="options,wings"))
