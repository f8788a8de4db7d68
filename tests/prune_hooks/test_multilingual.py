"""Statistics by language and mwanda: by hand, against the plain counterpart, and where they must be Wanda."""

import pytest
import torch

from prune_hooks import PruneError, PruneSpec, prune, registry
from prune_hooks.batches import make_batches, make_labels
from prune_hooks.by_language import ByLanguage
from prune_hooks.calibration import label_rows, load_rows
from prune_hooks.registry import Outcome, register_method
from prune_hooks.scores import mwanda_score, wanda_score
from prune_hooks.statistics import Needs, Statistics
from tests.families import PRUNED, build, tiny_tokenizer, token_rows
from tests.prune_hooks import reference, reference_multilingual

TOKENIZER = tiny_tokenizer()
TEXT = {"calibration": "builtin", "calibration_languages": ("en", "sw", "ru"), "calibration_samples": 5}
CPU = torch.device("cpu")


def loaded(length):
    made = load_rows("builtin", TOKENIZER, languages=("en", "sw", "ru"), samples=5, length=length)
    return made.rows, [[made.languages[k] for k in row] for row in made.labels.tolist()]


def pruned(family="llama", batch_rows=None, **options):
    model = build(family)
    spec = PruneSpec(**{"method": "mwanda", "sparsity": 0.5, "calibration_length": 24, **TEXT, **options})
    return model, prune(model, TOKENIZER, spec, progress=False, batch_rows=batch_rows)


@pytest.fixture
def seen():
    """Statistics that a method meets, by the name of the first weight that reads the input."""
    found = {}

    def look(group):
        found[group.weights[0].name] = group.statistics
        return [Outcome(masked=0) for _ in group.weights]

    register_method("looks_for_a_test", needs=Needs.LANGUAGES)(look)
    yield found
    del registry._METHODS["looks_for_a_test"]


# --- by hand


def by_language():
    # Two languages: the first with tokens (3, 1) and (4, 1), the second with (0, 2).
    sums = ByLanguage(2, 3, CPU)
    sums.add(torch.tensor([[3.0, 1.0], [0.0, -2.0]]), torch.tensor([0, 2]))
    sums.add(torch.tensor([[4.0, -1.0]]), torch.tensor([0]))
    return sums


def test_norms_by_hand():
    norms = by_language().norms()
    assert norms.tolist() == [[pytest.approx(12.5**0.5), 1.0], [0.0, 2.0]]  # the second of three was never met
    assert by_language().weights().tolist() == pytest.approx([2 / 3, 1 / 3])


def test_spread_by_hand():
    # Weights 2/3 and 1/3: for the second channel mean 4/3, variance 2/3 * 1/9 + 1/3 * 4/9 = 2/9.
    first = (2 / 9 * 12.5) ** 0.5  # mean 2/3 n, variance (2/3 * 1/9 + 1/3 * 4/9) n^2
    assert by_language().spread().tolist() == pytest.approx([first, (2 / 9) ** 0.5])


def test_activity_by_hand():
    # Means of abs 2, 1, 2.5: above are the first channel of the first and last token and the second of the middle one.
    assert by_language().activity().tolist() == pytest.approx([2 / 3, 1 / 3])


def test_correlation_by_hand():
    sums = ByLanguage(3, 3, CPU)
    sums.add(torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 2.0, 1.0]]), torch.arange(3))
    assert sums.correlation() == pytest.approx((1 - 1 - 1) / 3)


def test_what_has_no_correlation():
    sums = ByLanguage(2, 2, CPU)
    assert sums.correlation() is None
    sums.add(torch.tensor([[1.0, 2.0]]), None)
    assert sums.correlation() is None
    sums.add(torch.tensor([[3.0, 3.0]]), torch.tensor([1]))
    assert sums.correlation() is None


def test_one_language_has_no_spread_and_nobody_no_activity():
    sums = ByLanguage(2, 1, CPU)
    assert (sums.spread().tolist(), sums.activity().tolist()) == ([0.0, 0.0], [1.0, 1.0])
    sums.add(torch.randn(7, 2), None)
    assert sums.spread().tolist() == [0.0, 0.0]


def test_score_by_hand():
    weight = torch.tensor([[-2.0, 1.0]])
    score = mwanda_score(
        weight, torch.tensor([4.0, 9.0]), torch.tensor([1.0, 0.0]), torch.tensor([0.25, 1.0]), 0.5, 0.5
    )
    assert score.tolist() == [[2 * 2.5 * 0.5, 3.0]]


def test_sums_over_languages_leave_the_others_to_the_bit():
    x = torch.randn(700, 24)
    labels = torch.arange(700) % 3
    plain, apart = Statistics("w", 24, Needs.NORMS, CPU), Statistics("w", 24, Needs.LANGUAGES, CPU, languages=3)
    plain.update(x)
    apart.update(x, labels)
    assert torch.equal(plain.mean_square(), apart.mean_square())
    weights = apart.languages.weights()[:, None]
    torch.testing.assert_close((weights * apart.languages.norms() ** 2).sum(0), plain.mean_square())
    copy = apart.copied(CPU)
    apart.update(x, labels)
    assert copy.languages.norms().shape == (3, 24)
    assert not torch.equal(copy.languages._tokens, apart.languages._tokens)


def test_infinite_inputs_are_refused():
    statistics = Statistics("the.layer", 2, Needs.LANGUAGES, CPU)
    statistics.update(torch.tensor([[1.0, float("inf")]]))
    with pytest.raises(PruneError, match=r"NaN or infinite activations reach the\.layer"):
        _ = statistics.languages


# --- mwanda is Wanda where it must be, and not where it must not


@pytest.mark.parametrize("pattern", ["unstructured", "2:4"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mixtral", "t5", "qwen3_next"])
def test_without_lambda_and_g_it_is_wanda_to_the_bit(family, pattern):
    options = {"sparsity": None, "pattern": pattern}
    _, plain = pruned(family, method="wanda", **options)
    _, ours = pruned(family, method_options="lambda:0+g:0", **options)
    assert ours.weights_sha256 == plain.weights_sha256


def test_without_lambda_and_g_the_score_is_wandas_to_the_bit():
    weight, square, anything = torch.randn(9, 50), torch.rand(50), torch.rand(50)
    activity = torch.cat([torch.zeros(1), torch.rand(49)])
    score = mwanda_score(weight, square, anything, activity, 0.0, 0.0)
    assert torch.equal(score, wanda_score(weight, square))


@pytest.mark.parametrize("method", ["mwanda", "dsnot"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ({"calibration": token_rows()}, "of unknown language"),
        ({"calibration": label_rows(token_rows(), ["sw"] * 6)}, "in sw alone"),
        ({"calibration": "builtin", "calibration_languages": ("en",), "calibration_samples": 2}, "in en alone"),
        ({"calibration": label_rows(token_rows(), ["en"] * 4 + ["sw"] * 2), "calibration_samples": 4}, "in en alone"),
        ({"calibration": "FOLDER", "calibration_samples": 2}, "of unknown language"),
    ],
)
def test_text_of_one_language_is_refused(text, found, method, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("The river is long and the valley wide. " * 40)
    text = {**text, "calibration": str(tmp_path) if text["calibration"] == "FOLDER" else text["calibration"]}
    length = {"calibration_length": 24}
    monkeypatch.setattr("prune_hooks.api.make_batches", lambda *_: pytest.fail("a forward was made ready"))
    spec = PruneSpec(method=method, method_options="start:mwanda" if method == "dsnot" else "", **length, **text)
    message = rf"'mwanda' with lambda 0\.5 .* the calibration text is {found}: expected two .*method_options=lambda:0"
    with pytest.raises(PruneError, match=message):
        prune(build("llama"), TOKENIZER, spec, progress=False)


def test_with_lambda_0_one_language_will_do():
    one = {"calibration_languages": ("en",)}
    plain = pruned(method="wanda", **one)[1]
    assert pruned(method_options="lambda:0", **one)[1].weights_sha256 == plain.weights_sha256
    assert pruned(method_options="lambda:0+g:1", **one)[1].weights_sha256 != plain.weights_sha256


def test_lambda_and_g_count():
    digests = {pruned(method_options=text)[1].weights_sha256 for text in ("lambda:0", "lambda:2", "lambda:-1", "g:1")}
    assert len(digests) == 4


@pytest.mark.parametrize("pattern", ["unstructured", "2:4"])
@pytest.mark.parametrize("length", [24, 25])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "phi3"])
def test_it_agrees_with_the_plain_counterpart(family, length, pattern, monkeypatch):
    rows, labels = loaded(length)
    assert any(len(set(row)) > 1 for row in labels)  # rows mix languages
    ours, _ = pruned(
        family,
        method_options="lambda:1.5+g:0.7",
        sparsity=None,
        pattern=pattern,
        calibration_length=length,
        sequential="block",
        batch_rows=1,
    )

    def plain(weight, inputs, sparsity, runs):
        return reference_multilingual.mwanda(weight, inputs, labels, sparsity, runs, 1.5, 0.7)

    monkeypatch.setitem(reference.METHODS, "mwanda", plain)
    theirs = build(family)
    reference.prune(theirs, family, rows, "mwanda", 0.5, (2, 4) if pattern == "2:4" else None)
    left, right = reference.matrices(ours, family), reference.matrices(theirs, family)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_forgotten_labels_are_caught_by_the_counterpart(monkeypatch):
    rows, labels = loaded(24)
    monkeypatch.setattr("prune_hooks.api.Labels.of", lambda *_: None)
    ours, _ = pruned(method_options="lambda:1.5", sequential="block")
    theirs = build("llama")
    monkeypatch.setitem(
        reference.METHODS,
        "mwanda",
        lambda weight, inputs, sparsity, runs: reference_multilingual.mwanda(
            weight, inputs, labels, sparsity, runs, 1.5, 0.0
        ),
    )
    reference.prune(theirs, "llama", rows, "mwanda", 0.5)
    assert max(reference.differing(ours, theirs, "llama").values()) > 0.01


@pytest.mark.parametrize("order", ["weight", "block"])
@pytest.mark.parametrize("family", ["llama", "mixtral", "t5", "qwen3_next"])
def test_batches_change_nothing(family, order):
    digests = {
        pruned(family, batch_rows, method_options="lambda:1", sequential=order)[1].weights_sha256
        for batch_rows in (5, 2)
    }
    assert len(digests) == 1


# --- whose tokens are whose


@pytest.mark.parametrize("order", ["weight", "block"])
@pytest.mark.parametrize("batch_rows", [4, 1])
def test_a_decoder_that_looks_at_its_encoder_reads_the_encoders_tokens(seen, monkeypatch, order, batch_rows):
    """First halves in one language, second halves in another, equally long, so that lengths tell nothing."""
    rows, labels = token_rows(rows=4, length=24), torch.cat([torch.zeros(4, 12), torch.ones(4, 12)], dim=1).long()
    monkeypatch.setattr(
        "prune_hooks.api._rows",
        lambda spec, tokenizer: (rows, {"tokens_per_language": {}}, (("en", "sw"), labels)),
    )
    spec = PruneSpec(method="looks_for_a_test", sequential=order)
    prune(build("t5"), None, spec, progress=False, batch_rows=batch_rows)
    tokens = {name: statistics.languages._tokens.tolist() for name, statistics in seen.items()}
    encoder = {name for name in tokens if name.startswith("encoder")}
    crossed = {name for name in tokens if "EncDecAttention.k" in name}
    assert crossed == {f"decoder.block.{k}.layer.1.EncDecAttention.k.weight" for k in range(3)}
    assert {tuple(tokens[name]) for name in encoder | crossed} == {(48, 0)}
    assert {tuple(tokens[name]) for name in tokens.keys() - encoder - crossed} == {(0, 48)}


def test_an_experts_tokens_keep_their_language(seen):
    rows, labels = loaded(24)
    spec = PruneSpec(method="looks_for_a_test", calibration_length=24, **TEXT)
    prune(build("mixtral"), TOKENIZER, spec, progress=False, batch_rows=2)
    names = sorted({name for row in labels for name in row})
    model = build("mixtral")
    routed = {}
    handle = model.model.layers[0].mlp.experts.register_forward_pre_hook(lambda module, args: routed.update(args=args))
    with torch.no_grad():
        model(rows, use_cache=False)
    handle.remove()
    chosen = routed["args"][1]
    flat = [name for row in labels for name in row]
    for expert in range(4):
        reached = (chosen == expert).any(dim=1).tolist()
        expected = [sum(label == name for label, met in zip(flat, reached, strict=True) if met) for name in names]
        for weight in (f"gate_up_proj[{expert}][gate]", f"down_proj[{expert}]"):
            found = seen[f"model.layers.0.mlp.experts.{weight}"].languages._tokens.tolist()
            assert found == expected


def test_labels_are_split_as_rows_are():
    table = torch.arange(40).view(4, 10)
    llama, t5 = build("llama"), build("t5")
    assert torch.equal(torch.cat([b["input_ids"] for b in make_labels(llama, table, 3)]), table)
    rows, labels = make_batches(t5, table, 3), make_labels(t5, table, 3)
    for ids, own in zip(rows, labels, strict=True):
        assert torch.equal(ids["input_ids"], own["input_ids"])
        assert torch.equal(ids["decoder_input_ids"][:, 1:], own["decoder_input_ids"][:, 1:])
        assert torch.equal(own["decoder_input_ids"][:, 0], own["decoder_input_ids"][:, 1])


def test_inputs_that_are_no_tokens_are_refused():
    model = build("llama")
    target = model.model.layers[1].mlp.down_proj
    honest = target.forward
    target.register_forward_pre_hook(lambda module, args: (torch.cat([args[0], args[0]], dim=1),))
    target.forward = lambda x: honest(x[:, : x.shape[1] // 2])
    spec = PruneSpec(method="mwanda", calibration_length=24, **TEXT)
    with pytest.raises(
        PruneError, match=r"layers\.1\.mlp\.down_proj reads 240 tokens of a batch of 120: .*method=wanda"
    ):
        prune(model, TOKENIZER, spec, progress=False)


def test_dsnot_may_start_from_it():
    _, receipt = pruned(method="dsnot", method_options="start:mwanda")
    assert receipt.sparsity_reached == 0.5


@pytest.mark.parametrize("family", PRUNED)
def test_every_family_is_counted_by_language(family, seen):
    spec = PruneSpec(method="looks_for_a_test", calibration_length=24, **TEXT)
    prune(build(family), TOKENIZER, spec, progress=False, batch_rows=3)
    shared = [statistics.languages for name, statistics in seen.items() if "expert" not in name]
    assert all(0 < one.weights().max() < 1 for one in shared)


# --- rows that know their languages


def test_rows_may_be_given_with_their_languages():
    rows, codes = token_rows(rows=4), ("sw", "en", "sw", "en")
    made = label_rows(rows, codes)
    assert (made.languages, made.labels[:, 0].tolist()) == (("en", "sw"), [1, 0, 1, 0])
    model, other = build("llama"), build("llama")
    receipt = prune(model, None, PruneSpec(method="mwanda", calibration=made), progress=False)
    assert receipt.calibration["tokens_per_language"] == {"en": 48, "sw": 48}
    without = prune(build("llama"), None, PruneSpec(method="wanda", calibration=rows), progress=False)
    assert receipt.weights_sha256 != without.weights_sha256
    assert receipt.calibration["digest"] == without.calibration["digest"]
    swapped = PruneSpec(method="mwanda", calibration=label_rows(rows, ("en", "en", "sw", "sw")))
    assert prune(other, None, swapped, progress=False).weights_sha256 != receipt.weights_sha256
    first = PruneSpec(method="mwanda", calibration=made, calibration_samples=2)
    assert prune(build("llama"), None, first, progress=False).calibration["tokens_per_language"] == {"en": 24, "sw": 24}


def test_a_spec_with_labelled_rows_is_told_apart_by_rows_and_labels():
    rows = token_rows(rows=2)
    specs = [PruneSpec(calibration=label_rows(rows, codes)) for codes in (("en", "sw"), ("sw", "en"))]
    specs += [PruneSpec(calibration=rows), PruneSpec(calibration=label_rows(token_rows(rows=2, seed=1), ("en", "sw")))]
    assert len({spec.digest() for spec in specs}) == 4
    assert specs[0] == PruneSpec(calibration=label_rows(rows, ("en", "sw")))


def test_a_set_that_was_loaded_is_used_again_as_it_is():
    made = load_rows("builtin", TOKENIZER, languages=("en", "sw"), samples=3, length=24)
    _, again = pruned(calibration=made, calibration_languages=(), calibration_samples=None, calibration_length=None)
    _, first = pruned(calibration_languages=("en", "sw"), calibration_samples=3)
    assert again.weights_sha256 == first.weights_sha256
    assert again.calibration["digest"] == first.calibration["digest"]


def test_labels_that_do_not_fit_the_rows_are_refused():
    with pytest.raises(PruneError, match=r"3 languages for 2 calibration rows: give one for each"):
        label_rows(token_rows(rows=2), ("en", "sw", "ru"))
