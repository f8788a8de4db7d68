"""Allocation rules: the budget to the digit, OWL and correlation against plain counterparts, tables from files."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.allocation.spread import MOST, balanced, spread, weighted_mean
from prune_hooks.calibration import label_rows, load_rows
from prune_hooks.registry import Allotment, register_allocation
from prune_hooks.statistics import Needs
from tests.families import build, tiny_tokenizer, token_rows
from tests.prune_hooks import reference, reference_multilingual

ROWS = token_rows()
TOKENIZER = tiny_tokenizer()
TEXT = {"calibration_languages": ("en", "sw", "ru"), "calibration_samples": 5, "calibration_length": 24}
LOADED = load_rows("builtin", TOKENIZER, languages=("en", "sw", "ru"), samples=5, length=24)
LABELS = [[LOADED.languages[k] for k in row] for row in LOADED.labels.tolist()]


def pruned(family="llama", method="wanda", sparsity=0.5, **options):
    spec = PruneSpec(**{"method": method, "sparsity": sparsity, "calibration": ROWS, **options})
    return prune(build(family), TOKENIZER, spec, progress=False)


def shares_of(receipt):
    return [block["sparsity"] for block in receipt.allocation["blocks"]]


# --- the map


def test_spread_by_hand():
    # d = 0, 0.08, 0.16; mean 0.08; densities 0.42, 0.5, 0.58
    assert spread([1.0, 2.0, 3.0], [10, 10, 10], 0.5, 0.08) == pytest.approx([0.58, 0.5, 0.42])


def test_spread_weighs_blocks_by_their_size():
    # d = 0, 0.16; weighted mean (3 * 0 + 1 * 0.16) / 4 = 0.04
    assert spread([0.0, 1.0], [30, 10], 0.5, 0.08) == pytest.approx([0.54, 0.38])


def test_equal_values_are_the_uniform_allocation():
    assert spread([2.0, 2.0], [1, 3], 0.7, 0.08) == [0.7, 0.7]


def test_clipped_blocks_hand_on_what_they_cannot_take():
    # 0.98 +- 0.04 would be 1.02 and 0.94: the first stops at 0.99, the second takes 0.97
    assert balanced([1.02, 0.94], [5, 5], 0.98) == pytest.approx([0.99, 0.97])
    assert balanced([-0.05, 0.15], [5, 5], 0.05) == pytest.approx([0.0, 0.1])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(1, 10**6)), min_size=1, max_size=12),
    st.floats(0.01, 0.995),
    st.floats(0, 1),
)
def test_any_spread_hits_the_budget_within_bounds(blocks, sparsity, width):
    values, sizes = zip(*blocks, strict=True)
    shares = spread(values, sizes, sparsity, width)
    assert weighted_mean(shares, sizes) == pytest.approx(sparsity, abs=1e-9)
    assert all(0 <= share <= max(MOST, sparsity) for share in shares)


# --- owl


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "phi3", "opt"])
def test_owl_is_the_published_map_of_the_dense_models_outliers(family):
    limit = 2  # at 5 a tiny random model has no outliers at all
    receipt = pruned(family, allocation="owl", allocation_options=f"M:{limit}")
    expected = reference_multilingual.outliers(build(family), family, ROWS, limit)
    measured = [block["outliers"] for block in receipt.allocation["blocks"]]
    assert measured == pytest.approx(expected, abs=0.02)
    assert len(set(measured)) == len(measured)
    assert shares_of(receipt) == pytest.approx(reference_multilingual.spread(measured, 0.5, 0.08))
    assert receipt.allocation["rule"] == "owl"
    assert receipt.allocation["options"] == {"M": 2.0, "lambda": 0.08}
    assert receipt.allocation["mean"] == pytest.approx(0.5, abs=1e-9)


def test_owl_with_encoder_and_decoder_blocks_of_different_sizes_hits_its_budget():
    receipt = pruned("t5", allocation="owl", allocation_options={"M": 2, "lambda": 0.3})
    sizes = {block["weights"] for block in receipt.allocation["blocks"]}
    assert len(sizes) == 2
    assert receipt.allocation["mean"] == pytest.approx(0.5, abs=1e-9)


def test_without_outliers_owl_is_uniform_to_the_bit():
    owl = pruned(allocation="owl", allocation_options="M:1000")
    assert owl.weights_sha256 == pruned().weights_sha256
    assert set(shares_of(owl)) == {0.5}


@pytest.mark.parametrize("batch_rows", [6, 4])
def test_owl_does_not_depend_on_batches_or_order(batch_rows):
    shares = [
        shares_of(
            prune(
                build("mixtral"),
                None,
                PruneSpec(allocation="owl", allocation_options="M:2", calibration=ROWS, sequential=order),
                progress=False,
                batch_rows=batch_rows,
            )
        )
        for order in ("weight", "block")
    ]
    assert (
        shares[0]
        == shares[1]
        == pytest.approx(shares_of(pruned("mixtral", allocation="owl", allocation_options="M:2")))
    )


def test_looking_at_the_dense_model_leaves_it_dense():
    model = build("llama")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seen = []

    def nothing(targets, sparsity, options, look):
        assert options == {}
        for block, (name, value) in zip(look, before.items(), strict=False):
            assert torch.equal(model.state_dict()[name], value)
            seen.append([statistics.tokens for _, statistics in block])
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        return Allotment([sparsity] * 3, {"tokens": [float(tokens[0]) for tokens in seen]})

    rule = register_allocation("nothing_for_a_test", needs=Needs.NORMS)(nothing)
    try:
        receipt = prune(
            model,
            None,
            PruneSpec(method="magnitude", allocation="nothing_for_a_test", calibration=ROWS),
            progress=False,
        )
    finally:
        from prune_hooks import registry

        del registry._ALLOCATIONS[rule.name]
    assert seen == [[144] * 4] * 3  # one for q k v, one for o, one for gate and up, one for down
    assert [block["tokens"] for block in receipt.allocation["blocks"]] == [144.0] * 3
    assert receipt.calibration["rows"] == 6
    assert "allocation" in receipt.seconds


# --- correlation


@pytest.mark.parametrize(("sign", "factor"), [("plus", 1), ("minus", -1)])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_correlation_is_that_of_the_plain_counterpart(family, sign, factor):
    receipt = pruned(family, allocation="correlation", allocation_options={"sign": sign}, calibration="builtin", **TEXT)
    expected = reference_multilingual.correlations(build(family), family, LOADED.rows, LABELS)
    measured = [block["correlation"] for block in receipt.allocation["blocks"]]
    assert measured == pytest.approx(expected, abs=1e-4)
    shares = reference_multilingual.spread([factor * value for value in measured], 0.5, 0.08)
    assert shares_of(receipt) == pytest.approx(shares)


@pytest.mark.parametrize("family", ["mixtral", "t5"])
def test_correlation_knows_experts_and_encoders(family):
    receipt = pruned(family, allocation="correlation", calibration="builtin", **TEXT)
    values = [block["correlation"] for block in receipt.allocation["blocks"]]
    assert all(-1 <= value <= 1 for value in values)
    assert len(set(values)) == len(values)


def test_correlation_of_one_language_is_refused():
    message = r"inputs of model\.layers\.0 come from fewer than two: .*set calibration_languages, or use allocation=owl"
    with pytest.raises(PruneError, match=message):
        pruned(allocation="correlation")
    with pytest.raises(PruneError, match=message):
        pruned(allocation="correlation", calibration="builtin", calibration_languages=("en",), calibration_samples=2,
               calibration_length=24)  # fmt: skip


# --- any rule with any method


@pytest.mark.parametrize("method", ["magnitude", "random", "wanda", "sparsegpt", "ria", "dsnot", "alps", "obs",
                                    "wanda_variant", "mwanda"])  # fmt: skip
def test_every_method_takes_the_blocks_sparsities(method):
    text = label_rows(ROWS, ("en", "sw") * 3)
    options = {"M": 2, "lambda": 0.2}
    receipt = pruned(method=method, sparsity=0.5, allocation="owl", allocation_options=options, calibration=text)
    for number, share in enumerate(shares_of(receipt)):
        records = [record for record in receipt.weights if f"layers.{number}." in record.name]
        zeros = sum(record.zeros_after for record in records) / sum(r.shape[0] * r.shape[1] for r in records)
        assert share - 1 / 32 <= zeros <= share + 1e-6  # rows are rounded down, of 32 inputs at least
    assert len(set(shares_of(receipt))) == 3


def test_patterns_leave_no_room_for_an_allocation():
    message = (
        r"allocation 'owl' with pattern '2:4': the pattern keeps 2 of 4 in every block alike; .*pattern=unstructured"
    )
    with pytest.raises(PruneError, match=message):
        pruned(allocation="owl", sparsity=None, pattern="2:4")


def test_a_method_that_compares_the_whole_model_takes_no_allocation():
    with pytest.raises(PruneError, match=r"compares the whole model, but allocation 'owl' .*allocation=uniform"):
        pruned(method="magnitude_global", allocation="owl", allocation_options="M:2")


def test_the_uniform_receipt_says_nothing_of_an_allocation():
    receipt = pruned()
    assert receipt.allocation is None
    assert "allocation" not in receipt.to_dict()


def test_the_table_is_printed_and_json():
    receipt = pruned(allocation="owl", allocation_options="M:2")
    assert json.loads(json.dumps(receipt.to_dict()))["allocation"]["blocks"][1]["name"] == "model.layers.1"
    (line,) = [line for line in receipt.table().splitlines() if line.startswith("blocks")]
    assert [float(word) for word in line.split()[1:]] == pytest.approx(shares_of(receipt), abs=1e-4)


def test_offloaded_weights_are_looked_at_where_they_are(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    model = build("llama")
    expected = pruned(allocation="owl", allocation_options="M:2")
    accelerate.cpu_offload(model, execution_device="cpu")
    spec = PruneSpec(allocation="owl", allocation_options="M:2", calibration=ROWS)
    receipt = prune(model, None, spec, progress=False)
    assert receipt.weights_sha256 == expected.weights_sha256


# --- file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"model.layers.0": 0.4, "model.layers.1": 0.5, "2": 0.6}'),
        ("a.yaml", "model.layers.0: 0.4\n1: 0.5\nmodel.layers.2: 0.6\n"),
    ],
)
@pytest.mark.parametrize("spelling", ["name", "option"])
def test_a_file_is_followed(tmp_path, name, text, spelling):
    path = tmp_path / name
    path.write_text(text)
    named = {"allocation": f"file:{path}"}
    given = named if spelling == "name" else {"allocation": "file", "allocation_options": {"path": str(path)}}
    receipt = pruned(method="magnitude", **given)
    assert shares_of(receipt) == [0.4, 0.5, 0.6]
    assert [receipt.weights[k].masked for k in (0, 7, 14)] == [int(1024 * s) for s in (0.4, 0.5, 0.6)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{0: 0.5, 1: 0.5}", r"has no sparsity for model\.layers\.2 \(1 blocks\)"),
        (
            "{0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5}",
            r"names the block 3, which the model has not: expected model\.layers\.0 to",
        ),
        ("{0: 0.5, 1: 0.5, 2: 0.5, model.layers.0: 0.5}", r"gives model\.layers\.0 twice, by name and by number"),
        ("{0: 0.5, 0: 0.5, 1: 0.5, 2: 0.5}", r"cannot be read \('0' stands there twice\)"),
        (
            "{0: 0.5, 1: 0.5, 2: 1.0}",
            r"gives model\.layers\.2 the sparsity 1\.0: expected one sparsity from 0 to below 1",
        ),
        ("{0: 0.5, 1: 0.5, 2: half}", r"gives model\.layers\.2 the sparsity 'half'"),
        ("{0: 0.5, 1: 0.5, 2: 0.6}", r"means a sparsity of 0\.5333 .*asked is 0\.5: .*set sparsity=0\.5333"),
        ("[0.5, 0.5, 0.5]", r"holds list .*expected one sparsity"),
        ("{0: ", r"cannot be read \("),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, text, message):
    path = tmp_path / "table.yaml"
    path.write_text(text)
    with pytest.raises(PruneError, match=message):
        pruned(method="magnitude", allocation=f"file:{path}")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PruneError, match=r"names .*absent\.json, which is no file: expected one sparsity"):
        pruned(allocation=f"file:{tmp_path / 'absent.json'}")
    with pytest.raises(PruneError, match=r"was given no path: expected allocation=file:PATH"):
        pruned(allocation="file")


def test_a_json_file_with_a_block_twice_is_refused(tmp_path):
    path = tmp_path / "table.json"
    path.write_text('{"0": 0.5, "0": 0.5, "1": 0.5, "2": 0.5}')
    with pytest.raises(PruneError, match=r"cannot be read \('0' stands there twice\)"):
        pruned(method="magnitude", allocation=f"file:{path}")


def test_reference_by_hand():
    assert reference_multilingual.spread([1.0, 2.0], 0.5, 0.1) == pytest.approx([0.6, 0.4])
    inputs = [torch.tensor([[3.0, 0.0], [4.0, 1.0]]), torch.tensor([[0.0, 2.0]])]
    norms = reference_multilingual.channel_norms(inputs, [["a", "a"], ["b"]])
    assert norms["a"][0].tolist() == pytest.approx([12.5**0.5, 0.5**0.5])
    assert norms["b"][0].tolist() == [0.0, 2.0]
    assert reference.LAYOUTS.keys() >= {"llama", "gemma3"}
