"""A batch that rows leave and join: the same tokens as each row alone; ties and NaN counted by hand."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import (
    BartConfig,
    BartForCausalLM,
    DynamicCache,
    MptConfig,
    MptForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
    StaticCache,
)

from lm_eval_illusion.harness import generation, generation_cache
from lm_eval_illusion.harness.batching import AUTO_BATCH_TOKENS, batch_rows, like_length
from lm_eval_illusion.harness.generation_batch import Batch
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.generation_head import turned_head, turned_linear
from lm_eval_illusion.harness.generation_padding import may_be_padded
from lm_eval_illusion.harness.generation_row import choose
from lm_eval_illusion.harness.model import PrunedHFLM
from tests import families

NAN, INF = float("nan"), float("inf")


class Never:
    """A rule that lets an answer run to its limit."""

    def ended(self, tokens):
        return False


def asked(rows, limit=8):
    limits = limit if isinstance(limit, list) else [limit] * len(rows)
    return [generation.Request(tuple(row), most, Never()) for row, most in zip(rows, limits, strict=True)]


def answers(model, requests, batch_size):
    got: dict[int, generation.Answer] = {}
    generation.generate(
        model,
        requests,
        pad=families.PAD,
        batch_size=batch_size,
        max_batch_size=8,
        device=torch.device("cpu"),
        done=got.__setitem__,
    )
    return [got[n] for n in range(len(requests))]


def alone(model, request) -> list[int]:
    ids = torch.tensor([request.tokens])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=request.limit, do_sample=False, pad_token_id=0
    )
    return out[0, 1 if model.config.is_encoder_decoder else ids.shape[1] :].tolist()


LENGTHS = [4, 23, 9, 22, 21, 5, 3, 14, 1, 8]
LIMITS = [3, 9, 12, 2, 8, 12, 1, 5, 12, 7]


@pytest.mark.parametrize("attn", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_rows_of_any_length_that_leave_and_join_say_what_each_says_alone(family, attn):
    model = families.build(family, attn=attn, seed=1)
    rows = families.token_rows(len(LENGTHS), 24, seed=3).tolist()
    requests = asked([row[:length] for row, length in zip(rows, LENGTHS, strict=True)], LIMITS)
    expected = [alone(model, request) for request in requests]
    assert len({token for tokens in expected for token in tokens}) > 5
    for batch_size in (1, 2, 4, "auto"):
        got = answers(model, requests, batch_size)
        assert [list(answer.tokens) for answer in got] == expected
    assert {answer.finish for answer in got} <= {"stop", "length"}


def without_positions(kind: str):
    """A model whose forward takes no positions: BART's decoder learned them, the others see distances."""
    small = {"vocab_size": families.VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    made = {
        "bart": lambda: BartForCausalLM(
            BartConfig(
                **small, d_model=16, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=16, init_std=0.3,
                max_position_embeddings=128, is_decoder=True, is_encoder_decoder=False, forced_eos_token_id=None,
            )
        ),
        "mpt": lambda: MptForCausalLM(
            MptConfig(**small, d_model=16, n_layers=2, n_heads=2, max_seq_len=128, initializer_range=0.3)
        ),
        "bloom": lambda: families.build("bloom", seed=1),
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return made[kind]().eval()


@pytest.mark.parametrize(("kind", "beside"), [("bart", False), ("mpt", True), ("bloom", True)])
def test_a_model_that_padding_would_move_answers_prompts_of_one_length_together(kind, beside, steps):
    model = without_positions(kind)
    rows = families.token_rows(len(LENGTHS), 24, seed=3).tolist()
    lengths = [*LENGTHS[:-2], LENGTHS[0], LENGTHS[0]]  # three of one length
    requests = asked([row[:length] for row, length in zip(rows, lengths, strict=True)], LIMITS)
    expected = [alone(model, request) for request in requests]
    assert len({token for tokens in expected for token in tokens}) > 5
    for batch_size in (1, 2, 4, "auto"):
        steps.clear()
        assert [list(answer.tokens) for answer in answers(model, requests, batch_size)] == expected
        most = {1: 1, 2: 2}.get(batch_size, 3)
        assert max(count for count, _ in steps) == most if not beside else max(count for count, _ in steps) >= most


@torch.no_grad()
def test_padding_is_tried_only_where_no_positions_are_taken(monkeypatch):
    model = families.build("llama")
    monkeypatch.setattr(type(model), "generate", lambda *_, **__: pytest.fail("tried"))
    assert may_be_padded(model, (5, 6, 7), pad=0, device="cpu")
    assert not may_be_padded(without_positions("bart"), (5,), pad=0, device="cpu")


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "t5"])
def test_one_row_at_a_time_is_bit_for_bit_stocks(family, monkeypatch):
    model = families.build(family, dtype=torch.bfloat16, seed=1)
    rows = families.token_rows(3, 12, seed=5).tolist()
    requests = asked([rows[0], rows[1][:7], rows[2][:3]])
    seen: list[torch.Tensor] = []
    real = type(model).forward

    def forward(self, *args, **kwargs):
        out = real(self, *args, **kwargs)
        seen.append(out.logits[:, -1].clone())
        return out

    forward.__signature__ = __import__("inspect").signature(real)
    monkeypatch.setattr(type(model), "forward", forward)
    answers(model, requests, 1)
    ours = sorted(seen, key=lambda logits: logits.flatten().tolist())
    seen.clear()
    for request in requests:
        alone(model, request)
    theirs = sorted(seen, key=lambda logits: logits.flatten().tolist())
    assert len(ours) == len(theirs) > 9
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture
def steps(monkeypatch):
    """Rows and area of every forward."""
    seen = []
    real = Batch._forward

    def forward(self, **how):
        seen.append((len(self.rows), self.area))
        return real(self, **how)

    monkeypatch.setattr(Batch, "_forward", forward)
    return seen


def test_finished_rows_cost_no_more_steps(steps):
    model = families.build("llama")
    requests = asked(families.token_rows(4, 10).tolist(), [1, 2, 4, 7])
    lengths = [len(answer.tokens) for answer in answers(model, requests, 4)]
    assert len(set(lengths)) > 2
    assert [rows for rows, _ in steps] == [sum(length > step for length in lengths) for step in range(max(lengths))]


@pytest.mark.parametrize(("lengths", "most"), [([8] * 12, 3), ([40, 40, *[8] * 28], 6)])
def test_the_room_is_that_of_the_largest_batch_and_is_used(steps, lengths, most):
    # Two of the longest prompt with two answers each: 56 or 120 positions, for prompts of eight tokens with one.
    rows = families.token_rows(len(lengths), 40).tolist()
    got = answers(biased(t9=4.0), asked([row[:n] for row, n in zip(rows, lengths, strict=True)], 10), 2)
    assert all(answer.tokens == (9,) * 10 for answer in got)
    assert max(area for _, area in steps) <= 2 * (max(lengths) + 20)
    assert max(rows for rows, _ in steps) == most


def test_a_place_that_becomes_free_is_taken_at_once(steps):
    limits = [2, 9, 3, 4, 9, 2, 5, 6, 9, 3, 2, 9]
    answers(biased(t9=4.0), asked(families.token_rows(len(limits), 10).tolist(), limits), 3)
    waiting = [n for n, (rows, _) in enumerate(steps) if rows == 1][-1]  # the last prompt is run
    assert all(rows >= 2 for rows, _ in steps[4:waiting] if rows > 1)
    assert sum(rows >= 3 for rows, _ in steps[4:waiting] if rows > 1) >= 5


@given(
    lengths=st.lists(st.integers(1, 9000), max_size=30).map(lambda found: sorted(found, reverse=True)),
    batch_size=st.one_of(st.just("auto"), st.integers(1, 9)),
    fill=st.floats(0, 1),
)
def test_batches_hold_every_item_once_and_nothing_much_shorter(lengths, batch_size, fill):
    batches = list(like_length(range(len(lengths)), lengths, batch_size, 7, least_fill=fill))
    assert [n for batch in batches for n in batch] == list(range(len(lengths)))
    for batch in batches:
        longest, shortest = lengths[batch[0]], lengths[batch[-1]]
        assert 1 <= len(batch) <= batch_rows(longest, batch_size, 7)
        assert shortest >= fill * longest
        assert batch_size != "auto" or len(batch) == 1 or len(batch) * longest <= AUTO_BATCH_TOKENS


# ------------------------------------------------------------------ ties and what is not finite
def test_ties_are_counted_and_nan_is_none_of_them():
    rows = [[1.0, 3.0, 2.0], [3.0, 1.0, 3.0], [NAN, 3.0, 3.0], [-INF, -INF, -INF], [INF, INF, 0.0], [-INF, 2.0, -INF]]
    tokens, tied, finite = choose(torch.tensor(rows))
    assert tokens.tolist()[:2] == [1, int(torch.tensor(rows[1]).argmax())]
    assert tied.tolist() == [False, True, False, False, False, False]
    assert finite.tolist() == [True, True, False, False, False, True]


def test_ties_are_those_of_the_dtype_of_the_model():
    logits = torch.tensor([[100.0, 100.2, 0.0]])  # bfloat16 has steps of 0.5 there
    assert [choose(logits.to(dtype))[1].item() for dtype in (torch.float32, torch.bfloat16)] == [False, True]


def biased(**logits):
    """A model whose logits are a bias alone: by hand, {token: logit}."""
    model = families.build("gpt2")
    head = torch.nn.Linear(32, families.VOCAB)
    torch.nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.zero_()
        for token, logit in logits.items():
            head.bias[int(token[1:])] = logit
    model.lm_head = head
    return model


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(
    ("logits", "token", "tied", "non_finite"),
    [({"t9": 4.0}, 9, 0, False), ({"t9": 4.0, "t7": 4.0}, 7, 4, False), ({"t9": NAN, "t7": 4.0}, 9, 0, True)],
)
def test_an_answer_says_how_many_of_its_steps_tied(logits, token, tied, non_finite, batch_size):
    model = biased(**logits)
    for answer in answers(model, asked([[1, 5, 6], [1, 5], [1]], 4), batch_size):
        assert answer.tokens == (token,) * 4
        assert (answer.tied_steps, answer.non_finite, answer.finish) == (tied, non_finite, "length")


def test_an_end_token_ends_an_answer():
    model = biased(t2=4.0)
    (answer,) = answers(model, asked([[1, 5]], 4), 1)
    assert (answer.tokens, answer.finish) == ((2,), "stop")


def test_no_requests_no_answers():
    assert answers(families.build("gpt2"), [], 4) == []


# ------------------------------------------------------------------ caches
def test_long_rope_rows_beyond_the_switch_run_alone():
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(**families._common(max_position_embeddings=16, rope_parameters=rope))
        model = LlamaForCausalLM(config).eval()
    rows = families.token_rows(4, 24).tolist()
    requests = asked([rows[0], rows[1][:5], rows[2][:20], rows[3][:4]], 6)
    expected = [alone(model, request) for request in requests]
    assert [list(answer.tokens) for answer in answers(model, requests, 4)] == expected


def test_a_cache_joins_and_forgets_like_one_that_was_never_apart():
    model = families.build("gemma3")
    long, short = torch.tensor([[1, *range(20, 34)]]), torch.tensor([[1, 40, 41]])
    caches = [DynamicCache(config=model.config) for _ in range(2)]
    for ids, cache in zip((long, short), caches, strict=True):
        with torch.no_grad():
            model(input_ids=ids, **{_cache_name(model): cache}, use_cache=True)
    apart = copy.deepcopy(caches[1])
    joined = generation_cache.join(caches, [15, 3])
    assert joined.get_seq_length() == 15
    generation_cache.keep_rows(joined, torch.tensor([1]))
    generation_cache.drop_columns(joined, 12)
    assert joined.get_seq_length() == 3
    for ours, theirs in zip(joined.layers, apart.layers, strict=True):
        assert torch.equal(ours.keys, theirs.keys)
        assert torch.equal(ours.values, theirs.values)
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)


def _cache_name(model) -> str:
    import inspect

    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def linear_attention():
    """A hybrid of linear and full attention: its state has no row that could be padded."""
    changes = {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Qwen3NextForCausalLM(Qwen3NextConfig(**families._common(**changes))).eval()


def test_linear_attention_is_generated_as_stock_hf_with_a_line_of_log(tmp_path, caplog):
    linear_attention().save_pretrained(tmp_path)
    families.tiny_tokenizer().save_pretrained(tmp_path)
    arguments = {"until": ["e"], "do_sample": False, "max_gen_toks": 6}
    asked = [Instance("generate_until", {}, (text, dict(arguments)), 0) for text in ("The river", "a b c", "x")]
    stock = HFLM(pretrained=str(tmp_path), device="cpu", batch_size=1)
    ours = PrunedHFLM(pretrained=str(tmp_path), device="cpu", batch_size=1, method="none")
    with caplog.at_level("WARNING", logger="lm_eval.illusion"):
        assert ours.generate_until(asked, True) == stock.generate_until(asked, True)
    (line,) = [record.message for record in caplog.records if "decode loop" in record.message]
    assert line.startswith("Qwen3NextForCausalLM: no decode loop, generating as stock hf: its cache has a Linear")


def test_states_that_cannot_be_taken_apart_are_refused_by_name():
    with pytest.raises(CannotRunError, match="its cache has a Linear"):
        answers(linear_attention(), asked([[1, 5]]), 1)
    static = StaticCache(config=families.build("llama").config, max_cache_len=8)
    with pytest.raises(CannotRunError, match="StaticCache"):
        generation_cache.require_rows(static)


def test_a_model_with_a_generate_of_its_own_is_refused(monkeypatch):
    model = families.build("llama")
    monkeypatch.setattr(model, "generate", lambda input_ids, **how: input_ids)
    with pytest.raises(CannotRunError, match="its generate is its own"):
        answers(model, asked([[1, 5]]), 1)


def test_what_transformers_cannot_prepare_is_refused(monkeypatch):
    model = families.build("llama")

    def broken(*args, **kwargs):
        raise ValueError("no")

    monkeypatch.setattr(model, "generate", broken)
    with pytest.raises(CannotRunError, match=r"transformers cannot prepare it \(ValueError\)"):
        answers(model, asked([[1, 5]]), 1)


# ------------------------------------------------------------------ the head
@pytest.mark.parametrize("bias", [True, False])
def test_the_turned_head_is_the_head(bias):
    head, hidden = torch.nn.Linear(16, 50, bias=bias), torch.randn(3, 1, 16)
    assert torch.allclose(turned_linear(hidden, head.weight, head.bias), head(hidden), atol=1e-5)


def test_the_head_is_as_before_afterwards_and_one_row_never_meets_the_other_way(monkeypatch):
    from lm_eval_illusion.harness import generation_head

    model, turned = families.build("llama"), []
    monkeypatch.setattr(generation_head, "_is_slow", lambda weight: True)
    real = generation_head.turned_linear
    monkeypatch.setattr(generation_head, "turned_linear", lambda *given: turned.append(given[0].shape) or real(*given))
    with turned_head(model):
        for rows in (1, 2, 11):
            model(input_ids=torch.full((rows, 3), 7), logits_to_keep=1)
    assert [shape[0] for shape in turned] == [2]
    assert "forward" not in vars(model.get_output_embeddings())
