"""Masks as files: the same bits back, refusals by name, and a lottery ticket won with them."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from prune_hooks import PruneError, PruneSpec, prune, put_mask, save_mask
from prune_hooks.foresight import check_spec
from prune_hooks.mask_files import MaskFile, require_free
from prune_hooks.mask_header import read_header
from prune_hooks.targets import find_targets
from tests.families import PRUNED, build, token_rows

ROWS = token_rows()


def zeros(model):
    return {weight.name: weight.matrix() == 0 for weight in find_targets(model).weights()}


def pruned(tmp_path, family="llama", **options):
    model = build(family)
    spec = PruneSpec(**{"calibration": ROWS, "save_mask": tmp_path / "mask.safetensors", **options})
    return model, prune(model, None, spec, progress=False)


def put(model, path, **options):
    return prune(model, None, PruneSpec(method="mask", mask=path, **options), progress=False)


@pytest.mark.parametrize("family", PRUNED)
def test_a_mask_comes_back_on_another_checkpoint(tmp_path, family):
    first, found = pruned(tmp_path, family, sparsity=0.6)
    second = build(family, seed=1)
    dense = build(family, seed=1)
    receipt = put(second, tmp_path / "mask.safetensors")
    expected, there = zeros(first), zeros(second)
    for weight in find_targets(dense).weights():
        assert torch.equal(there[weight.name], expected[weight.name])
    kept = zip(find_targets(second).weights(), find_targets(dense).weights(), strict=True)
    assert all(torch.equal(w.matrix(), d.matrix().masked_fill(expected[d.name], 0)) for w, d in kept)
    assert receipt.sparsity_asked == pytest.approx(found.sparsity_reached)
    assert receipt.sparsity_masked == found.sparsity_reached
    assert receipt.calibration is None


def test_the_file_is_small_and_says_what_it_is(tmp_path):
    _, receipt = pruned(tmp_path, sparsity=0.25)
    path = tmp_path / "mask.safetensors"
    with safe_open(path, "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.uint8}  # noqa: SIM118
        size = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
    header = read_header(path)
    assert size * 8 == sum(rows * columns for rows, columns in header.shapes.values())
    assert header.spec["method"] == "wanda"
    assert header.sparsity == 0.25
    assert receipt.saved_mask == {"path": str(path), "sha256": header.digest}
    assert f"mask            {path}, sha256 {header.digest[:16]}" in receipt.table()
    assert "save_mask" not in receipt.to_dict()["spec"]


def test_bits_by_hand(tmp_path):
    model = build("llama")
    for weight in find_targets(model).weights():
        weight.matrix()[0, 1] = 0
    found = save_mask(model, tmp_path / "m.safetensors")
    packed = load_file(tmp_path / "m.safetensors")
    assert packed["model.layers.0.self_attn.q_proj.weight"][:3].tolist() == [0b01000000, 0, 0]
    assert read_header(tmp_path / "m.safetensors").removed == 21
    assert found["sha256"] == read_header(tmp_path / "m.safetensors").digest


def test_saving_changes_nothing_else(tmp_path):
    _, with_mask = pruned(tmp_path)
    without = prune(build("llama"), None, PruneSpec(calibration=ROWS), progress=False)
    assert (with_mask.weights_sha256, with_mask.spec_digest) == (without.weights_sha256, without.spec_digest)
    assert without.saved_mask is None
    assert "saved_mask" not in without.to_dict()


def test_of_several_processes_the_first_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    _, receipt = pruned(tmp_path)
    assert receipt.saved_mask is None
    assert not (tmp_path / "mask.safetensors").exists()
    monkeypatch.setenv("RANK", "0")
    assert pruned(tmp_path)[1].saved_mask is not None


def test_the_digest_of_a_spec_names_its_mask(tmp_path):
    pruned(tmp_path)
    spec = PruneSpec(method="mask", mask=tmp_path / "mask.safetensors")
    assert spec.to_dict()["mask"] == str(tmp_path / "mask.safetensors")
    assert spec.sparsity == 0.5
    assert "mask" not in PruneSpec().to_dict()
    again = PruneSpec(**{key: value for key, value in spec.to_dict().items() if key != "calibration"})
    assert again == spec


def test_model_args_spell_it(tmp_path):
    pruned(tmp_path, pattern="2:4")
    path = str(tmp_path / "mask.safetensors")
    spec, rest = PruneSpec.from_model_args({"method": "mask", "mask": path, "dtype": "float32"})
    assert (spec.mask, spec.sparsity, rest) == (path, 0.5, {"dtype": "float32"})
    spec, _ = PruneSpec.from_model_args({"method": "magnitude", "save_mask": "new.safetensors"})
    assert spec.save_mask == "new.safetensors"


def test_a_mask_is_put_onto_offloaded_weights(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    pruned(tmp_path)
    expected = put(build("llama", seed=1), tmp_path / "mask.safetensors")
    model = build("llama", seed=1)
    accelerate.cpu_offload(model, execution_device="cpu")
    assert put(model, tmp_path / "mask.safetensors").weights_sha256 == expected.weights_sha256


# --- refusals


def test_another_width_is_refused_by_name(tmp_path):
    pruned(tmp_path)
    model = build("llama")
    wide = model.model.layers[1].mlp
    wide.up_proj = torch.nn.Linear(32, 64, bias=False)
    before = model.state_dict()["model.layers.0.self_attn.q_proj.weight"].clone()
    message = r"does not fit: model\.layers\.1\.mlp\.up_proj\.weight is 64 x 32 in the model and 48 x 32 in the mask"
    with pytest.raises(PruneError, match=message):
        put(model, tmp_path / "mask.safetensors")
    with pytest.raises(PruneError, match=message):
        put_mask(model, tmp_path / "mask.safetensors")
    assert torch.equal(model.state_dict()["model.layers.0.self_attn.q_proj.weight"], before)


def test_missing_layers_are_refused_by_name(tmp_path):
    pruned(tmp_path)
    shorter, longer = build("llama"), build("llama")
    del shorter.model.layers[2]
    longer.model.layers.append(build("llama", seed=1).model.layers[0])
    with pytest.raises(PruneError, match=r"the mask's model\.layers\.2\.\S+ is not in the model \(7 such matrices\)"):
        put_mask(shorter, tmp_path / "mask.safetensors")
    with pytest.raises(PruneError, match=r"the model's model\.layers\.3\.\S+ is not in the mask \(7 such matrices\)"):
        put_mask(longer, tmp_path / "mask.safetensors")


def test_a_damaged_file_is_refused(tmp_path):
    pruned(tmp_path)
    path = tmp_path / "mask.safetensors"
    bytes_ = bytearray(path.read_bytes())
    bytes_[-1] ^= 1
    path.write_bytes(bytes_)
    with pytest.raises(PruneError, match=r"is damaged \(SHA-256 .*\): expected .*copy or write it anew"):
        put(build("llama"), path)
    path.write_bytes(bytes_[:-100])
    with pytest.raises(PruneError, match=r"is damaged \(.*expected the file that save_mask wrote"):
        MaskFile(path)


def rewritten(path, **head):
    """The same bits under a header that says something else."""
    with safe_open(path, "pt") as file:
        old = file.metadata()
    other = path.with_name("other.safetensors")
    save_file(load_file(path), other, {**old, **head})
    return other


@pytest.mark.parametrize("removed", ["0", "1", "14209"])
def test_a_header_that_counts_otherwise_than_the_bits_is_refused(tmp_path, removed):
    pruned(tmp_path)
    bits = read_header(tmp_path / "mask.safetensors").removed
    path = rewritten(tmp_path / "mask.safetensors", removed=removed)
    message = rf"is damaged: its header says that {removed} weights go, its bits remove {bits}; copy or write it anew"
    model = build("llama")
    with pytest.raises(PruneError, match=message):
        put(model, path)
    with pytest.raises(PruneError, match=message):
        check_spec(PruneSpec(method="mask", mask=path))
    with pytest.raises(PruneError, match=message):
        put_mask(model, path)
    assert not any(zero.any() for zero in zeros(model).values())


def test_a_mask_that_removes_nothing_still_has_to_fit(tmp_path):
    path = tmp_path / "none.safetensors"
    made = save_mask(build("llama"), path)
    receipt = put(build("llama", seed=1), path)
    assert (receipt.sparsity_reached, receipt.mask) == (0.0, made)
    with pytest.raises(PruneError, match=r"does not fit: the model's \S+ is not in the mask"):
        put(build("gpt2"), path)


def test_the_receipt_names_the_mask_that_was_put_on(tmp_path):
    first, found = pruned(tmp_path)
    receipt = put(build("llama", seed=1), tmp_path / "mask.safetensors")
    assert receipt.mask == found.saved_mask
    assert receipt.to_dict()["mask"]["sha256"] == read_header(tmp_path / "mask.safetensors").digest
    assert f"mask used       {tmp_path / 'mask.safetensors'}, sha256 {receipt.mask['sha256'][:16]}" in receipt.table()
    assert "mask" not in found.to_dict()
    assert first is not None


def test_dsnot_refines_a_saved_mask(tmp_path):
    path = tmp_path / "mask.safetensors"
    first, found = pruned(tmp_path, method="magnitude", sparsity=0.4)
    start = zeros(first)
    models = {}
    for cycles in (0, 50):
        models[cycles] = build("llama")
        options = f"start:mask+threshold:0+cycles:{cycles}"
        spec = PruneSpec(method="dsnot", mask=path, method_options=options, calibration=ROWS)
        receipt = prune(models[cycles], None, spec, progress=False)
        assert (receipt.mask, receipt.sparsity_asked) == (found.saved_mask, found.sparsity_reached)
    left, refined = zeros(models[0]), zeros(models[50])
    assert all(torch.equal(left[name], start[name]) for name in start)
    assert any(not torch.equal(refined[name], start[name]) for name in start)
    assert all(torch.equal(refined[name].sum(dim=1), start[name].sum(dim=1)) for name in start)
    with pytest.raises(PruneError, match=r"cannot start from 'mask'.*does not fit: .* change start in method_options"):
        prune(build("gpt2"), None, spec, progress=False)
    with pytest.raises(PruneError, match=r"method 'dsnot' with start:mask was given no mask: expected mask=PATH"):
        PruneSpec(method="dsnot", method_options="start:mask")


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(PruneError, match=r"is no mask file \(KeyError\): expected a file written with save_mask"):
        PruneSpec(method="mask", mask=path)
    save_file({"a": torch.zeros(2)}, path, {"kind": "prune_hooks mask 0"})
    with pytest.raises(PruneError, match=r"is of the kind 'prune_hooks mask 0': expected 'prune_hooks mask 1'"):
        read_header(path)
    save_file({"a": torch.zeros(2)}, path, {"kind": "prune_hooks mask 1", "shapes": "{"})
    with pytest.raises(PruneError, match=r"has a damaged header \(JSONDecodeError\)"):
        read_header(path)
    path.write_text("nothing of the kind, but long enough for a header")
    with pytest.raises(PruneError, match=r"is no mask file"):
        read_header(path)
    with pytest.raises(PruneError, match=r"absent\.safetensors is no file: expected a file written with save_mask"):
        PruneSpec(method="mask", mask=tmp_path / "absent.safetensors")


def test_other_matrices_than_the_header_names_are_refused(tmp_path):
    pruned(tmp_path)
    path = tmp_path / "mask.safetensors"
    with safe_open(path, "pt") as file:
        head, names = file.metadata(), list(file.keys())
        packed = {name: file.get_tensor(name) for name in names[1:]}
    save_file(packed, tmp_path / "less.safetensors", head)
    with pytest.raises(PruneError, match=r"is damaged \(SHA-256 of other matr"):
        MaskFile(tmp_path / "less.safetensors")


def test_options_that_contradict_a_mask_are_refused(tmp_path):
    pruned(tmp_path)
    path = tmp_path / "mask.safetensors"
    with pytest.raises(
        PruneError, match=r"sparsity 0\.7 with mask .*the mask itself removes 0\.5000; leave sparsity out"
    ):
        PruneSpec(method="mask", mask=path, sparsity=0.7)
    with pytest.raises(
        PruneError,
        match=r"method 'mask' with a mask, pattern '2:4' and allocation 'uniform': the file says which weights go",
    ):
        PruneSpec(method="mask", mask=path, pattern="2:4")
    with pytest.raises(PruneError, match=r"with a mask, pattern 'unstructured' and allocation 'owl': the file says"):
        PruneSpec(method="mask", mask=path, allocation="owl")
    with pytest.raises(PruneError, match=r"mask is .* but method is 'wanda': expected method=mask with it"):
        PruneSpec(mask=path)
    with pytest.raises(PruneError, match=r"method 'mask' was given no mask: expected mask=PATH"):
        PruneSpec(method="mask")
    with pytest.raises(PruneError, match=r"mask is 5 \(int\): expected the path of a file"):
        PruneSpec(method="mask", mask=5)


def test_masks_that_cannot_be_saved_are_refused_before_anything_is_pruned(tmp_path):
    pruned(tmp_path)
    model = build("llama")
    with pytest.raises(PruneError, match=r"save_mask: .*mask\.safetensors is there already: expected a new file"):
        prune(model, None, PruneSpec(calibration=ROWS, save_mask=tmp_path / "mask.safetensors"), progress=False)
    assert not any(zero.any() for zero in zeros(model).values())
    for dense in ({"method": "none"}, {"sparsity": 0.0}):
        with pytest.raises(PruneError, match=r"save_mask is 'x', but nothing is pruned .*leave save_mask out"):
            PruneSpec(save_mask="x", **dense)
    with pytest.raises(PruneError, match=r"method 'block_influence' removes whole structures and leaves no mask"):
        prune(model, None, PruneSpec(method="block_influence", save_mask="x", calibration=ROWS), progress=False)


def test_a_method_that_a_spec_has_not_completed_says_so():
    from prune_hooks.registry import Group, get_method

    weight = find_targets(build("llama")).weights()[0]
    with pytest.raises(PruneError, match=r"asked to prune model\.layers\.0\.\S+ without a file: expected mask=PATH"):
        get_method("mask").prune(Group((weight,), None, 0.5, None, 0))


# --- lottery tickets


TEXT = (torch.arange(3, 3 + 32) * 7 % 97 + 3).repeat(4, 1)  # one sentence to learn by heart


def learn(model, steps, mask=None):
    """Trains in place, the mask kept; returns the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        loss = model(input_ids=TEXT, labels=TEXT).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if mask is not None:
            put_mask(model, mask)
    return float(loss.detach())


def test_iterative_magnitude_pruning_with_rewinding(tmp_path):
    """Train, prune by magnitude, rewind to the start under the mask, train again, prune further."""
    start = build("llama")
    for parameter in start.parameters():
        parameter.data *= 0.5
    rewound = {name: value.clone() for name, value in start.state_dict().items()}
    model, mask, earlier, untrained = build("llama"), None, None, None
    for number, sparsity in enumerate((0.3, 0.5)):
        model.load_state_dict(rewound)
        if mask is not None:
            put(model, mask)
            untrained = float(model(input_ids=TEXT, labels=TEXT).loss.detach())
        kept = MaskFile(mask) if mask is not None else None
        trained = learn(model, 60, kept)
        if kept is not None:
            assert trained < 0.5 * untrained
            assert MaskFile(mask).header.sparsity == pytest.approx(0.3, abs=0.01)
            assert all(zero[earlier[name]].all() for name, zero in zeros(model).items())
        mask = tmp_path / f"round{number}.safetensors"
        prune(model, None, PruneSpec(method="magnitude", sparsity=sparsity, save_mask=mask), progress=False)
        found = zeros(model)
        if earlier is not None:
            assert all((found[name] | ~earlier[name]).all() for name in found)  # masks only grow
        earlier = found
    assert read_header(mask).sparsity == pytest.approx(0.5, abs=0.01)
    ticket = build("llama")
    ticket.load_state_dict(rewound)
    put(ticket, mask)
    untrained = float(ticket(input_ids=TEXT, labels=TEXT).loss.detach())
    trained = learn(ticket, 60, MaskFile(mask))
    assert trained < 0.5 * untrained
    by_lot = tmp_path / "by_lot.safetensors"
    prune(build("llama"), None, PruneSpec(method="random", sparsity=0.5, save_mask=by_lot), progress=False)
    rival = build("llama")
    rival.load_state_dict(rewound)
    put(rival, by_lot)
    assert trained < learn(rival, 60, MaskFile(by_lot))
    assert json.loads(json.dumps(dict(read_header(mask).spec)))["method"] == "magnitude"


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(PruneError, match=r"mask\.st cannot be written, since .*file is no writable folder"):
        require_free(tmp_path / "file" / "deep" / "mask.st")
    require_free(tmp_path / "new" / "deep" / "mask.st")
