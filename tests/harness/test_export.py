"""`export`: what is saved is what a run in place has asked, for transformers, for later runs and for the reader."""

import json
import os
import re
import stat
from pathlib import Path

import pytest
import torch
import yaml
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import _index
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import export as exporting
from lm_eval_illusion.harness import launch
from lm_eval_illusion.harness.export import export_checkpoint
from lm_eval_illusion.harness.exported import read_export
from lm_eval_illusion.harness.inspect import inspect_checkpoint
from lm_eval_illusion.harness.model import PrunedHFLM
from lm_eval_illusion.harness.sweep.once import found_out_once
from lm_eval_illusion.report.build import build_report
from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.structured import load_sliced
from tests import families
from tests.harness.conftest import answer_requests, choice_requests, paired_doc
from tests.prune_hooks.test_gguf import LLAMA, _write

WANDA = {"method": "wanda", "pattern": "2:4", "calibration_samples": 2, "calibration_length": 64}
LANGUAGES = ("en", "sw")
DOCS = [paired_doc(n, "The river runs north. " * (1 + n)) for n in range(2)]


def export(source: str, out: Path, **options):
    return export_checkpoint(source, options, out, device="cpu")


@pytest.fixture(scope="module")
def ask():
    """Return a function that asks illusion_mini in two languages and returns the run's folder."""
    tasks = ",".join(f"illusion_mini_{half}_{code}" for half in ("mc", "mc_far", "gen") for code in LANGUAGES)

    def call(model: str, out: Path, **model_args):
        given = ",".join(f"{key}={value}" for key, value in model_args.items())
        words = ["--model", model, "--model_args", given, "--tasks", tasks, "--num_fewshot", "1", "--device", "cpu"]
        words += ["--metadata", json.dumps({"illusion_items_per_language": 3}), "--batch_size", "4"]
        return launch.run([*words, "--output_path", str(out)])

    default, walk = Path(_index.__file__).resolve().parent, _index.TaskIndex._iter_yaml_files
    with pytest.MonkeyPatch.context() as patch, found_out_once():  # without the harness's own thousands of task files
        patch.setattr(
            _index.TaskIndex, "_iter_yaml_files", staticmethod(lambda root: () if Path(root) == default else walk(root))
        )
        yield call


def samples(out: Path) -> dict[tuple[str, str], dict]:
    """Return every sample record of a run by task and item, without the run's own addresses."""
    found = {}
    for path in out.rglob("samples_*.jsonl"):
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            told = json.loads(line)
            found[told["illusion"]["condition"], told["illusion"]["item_id"]] = told
    return found


def receipt_of(out: Path) -> dict:
    (results,) = out.rglob("results_*.json")
    return json.loads(results.read_text(encoding="utf-8"))["config"]["illusion"]["receipt"]


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def case(request, tiny, ask, tmp_path_factory):
    """A dense run, a run pruned in place, and the same pruning exported and asked later."""
    root, source = tmp_path_factory.mktemp(request.param), tiny(request.param)
    export(source, root / "exported", **WANDA)
    return {
        "source": source,
        "folder": root / "exported",
        "dense": ask("pruned_hf", root / "dense", pretrained=source, method="none"),
        "in_place": ask("pruned_hf", root / "in_place", pretrained=source, **WANDA),
        "later": ask("pruned_hf", root / "later", pretrained=root / "exported", method="none"),
        "hf": ask("hf", root / "hf", pretrained=root / "exported"),
    }


def test_a_later_run_gives_the_same_items_bit_for_bit(case):
    in_place, later = samples(case["in_place"]), samples(case["later"])
    assert len(in_place) == 3 * 3 * len(LANGUAGES)
    assert later == in_place
    assert samples(case["dense"]) != in_place
    assert receipt_of(case["later"])["weights_sha256"] == receipt_of(case["in_place"])["weights_sha256"]


def test_the_weights_are_the_same_by_a_receipt_of_their_own(case):
    model = AutoModelForCausalLM.from_pretrained(case["folder"])
    found = prune(model, None, PruneSpec(method="none"), progress=False)
    assert found.weights_sha256 == receipt_of(case["in_place"])["weights_sha256"]


def test_stock_hf_asks_the_same_questions_and_picks_the_same(case):
    in_place, stock = samples(case["in_place"]), samples(case["hf"])
    assert stock.keys() == in_place.keys()
    for key, told in stock.items():
        ours = in_place[key]
        assert all(told[name] == ours[name] for name in ("doc_hash", "prompt_hash", "target_hash", "arguments")), key
        assert told["illusion"]["right"] == ours["illusion"]["right"], key
        for name in ("picked", "answer"):
            assert told["illusion"].get(name) == ours["illusion"].get(name), key
        if "logprobs" in ours["illusion"]:
            assert told["illusion"]["logprobs"] == pytest.approx(ours["illusion"]["logprobs"], abs=1e-3)


def test_stock_hf_scores_the_exported_folder_as_the_model_in_memory_bit_for_bit(case):
    made = PrunedHFLM(pretrained=case["source"], device="cpu", **WANDA)
    tokenizer = AutoTokenizer.from_pretrained(case["source"])
    memory = HFLM(pretrained=made.model, tokenizer=tokenizer, batch_size=2)
    disk = HFLM(pretrained=str(case["folder"]), device="cpu", batch_size=2)
    assert disk.loglikelihood(choice_requests(DOCS), True) == memory.loglikelihood(choice_requests(DOCS), True)
    asked = [answer_requests(DOCS, until=["\n"]) for _ in range(2)]
    assert disk.generate_until(asked[0], True) == memory.generate_until(asked[1], True)


def test_the_report_takes_a_later_run_for_what_it_is(case, tmp_path):
    report = build_report([case["dense"], case["later"]]).file
    run = report.runs[1]
    assert run.label == "wanda 2:4"
    assert run.overlap.status == "none"
    assert run.identity["base"] == case["source"]
    assert run.identity["pretrained"] == str(case["folder"])
    (told,) = [note.text for note in report.notes if "exported from" in note.text]
    assert told.startswith(f"wanda 2:4 is the checkpoint {case['folder']}, exported from {case['source']}: its weights")
    in_place = build_report([case["dense"], case["in_place"]]).file
    assert report.comparisons[0].rows == in_place.comparisons[0].rows


def test_the_report_compares_a_stock_run_too(case):
    report = build_report([case["dense"], case["hf"]]).file
    assert report.runs[1].label == "hf"
    assert report.runs[1].identity["pretrained"] == str(case["folder"])
    assert [note.text for note in report.notes if note.level == "alarm"] == []
    assert report.comparisons[0].rows[0].joined == 6


def test_what_is_saved_beside_the_weights(case):
    folder, source = case["folder"], case["source"]
    held = read_export(folder)
    assert held["base"] == {"pretrained": source, "revision": None, "sha": None, "gguf_file": None}
    ours = receipt_of(case["in_place"])
    unlike = ("seconds", "peak_memory")
    assert {k: v for k, v in held["receipt"].items() if k not in unlike} == {
        k: v for k, v in ours.items() if k not in unlike
    }
    text = "Wie lang ist der Fluss? 210 km"
    assert AutoTokenizer.from_pretrained(folder)(text) == AutoTokenizer.from_pretrained(source)(text)
    assert AutoTokenizer.from_pretrained(folder).chat_template == families.CHAT_TEMPLATE
    assert GenerationConfig.from_pretrained(folder).to_dict() | {
        "transformers_version": None
    } == GenerationConfig.from_pretrained(source).to_dict() | {"transformers_version": None}
    assert sorted(path.name for path in folder.parent.iterdir() if path.name.startswith(".")) == []


def test_the_card_tells_what_was_done(case):
    card = (case["folder"] / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    assert head["tags"] == ["pruned", "sparse", "lm-eval-illusion"]
    ours = receipt_of(case["in_place"])
    for words in ("wanda, 2:4", "asked 0.5000, reached 0.5000", ours["weights_sha256"], ours["spec_digest"]):
        assert words in card
    assert str(Path(case["source"]).parent) not in card
    (call,) = re.findall(r"```python\n(.*?)```", card, flags=re.S)
    scope = {}
    exec(call.replace("THIS_FOLDER", str(case["folder"])), scope)
    assert scope["model"].dtype == torch.float32


def test_tied_weights_stay_tied(tiny, tmp_path):
    out = export(tiny("gemma3"), tmp_path / "out", method="magnitude").folder
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert inspect_checkpoint(out).tied.state == "tied"


def test_a_dtype_is_saved_and_another_one_loaded_later_is_of_unknown_origin(tiny, tmp_path, caplog):
    out = export(tiny("llama"), tmp_path / "out", method="magnitude", dtype="bfloat16").folder
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"
    same = PrunedHFLM(pretrained=str(out), device="cpu", method="none")
    assert same.receipt["spec"]["method"] == "magnitude"
    assert "not those" not in caplog.text
    other = PrunedHFLM(pretrained=str(out), device="cpu", method="none", dtype="float32")
    assert other.receipt["spec"]["method"] == "none"
    assert "the weights loaded are not those that receipt.json was written for" in caplog.text


def test_large_models_are_sharded(tiny, tmp_path):
    made = export_checkpoint(tiny("llama"), {"method": "random"}, tmp_path / "out", device="cpu", shard_size="40KB")
    assert len(list(made.folder.glob("model-*-of-*.safetensors"))) > 2
    found = inspect_checkpoint(made.folder)
    assert found.blocks.sparsity == made.receipt["sparsity_reached"]
    AutoModelForCausalLM.from_pretrained(made.folder)


def test_licence_and_card_entries_of_the_base_are_kept(tmp_path):
    source = families.save_tiny("llama", tmp_path / "base")
    (source / "LICENSE").write_text("Be kind.")
    (source / "README.md").write_text("---\nlicense: mit\nlanguage: [en, sw]\nmetrics: [f1]\n---\n# Base\n")
    out = export(str(source), tmp_path / "out", method="magnitude").folder
    assert (out / "LICENSE").read_text() == "Be kind."
    head = yaml.safe_load((out / "README.md").read_text().split("---")[1])
    assert (head["license"], head["language"], "metrics" in head) == ("mit", ["en", "sw"], False)


def test_a_method_that_removes_blocks_saves_an_ordinary_checkpoint(tiny, tmp_path):
    made = export(
        tiny("llama"), tmp_path / "out", method="block_influence", sparsity=0.3, calibration=families.token_rows()
    )
    assert made.reload == "from_pretrained"
    model = AutoModelForCausalLM.from_pretrained(made.folder)
    assert len(model.model.layers) == 2
    later = PrunedHFLM(pretrained=str(made.folder), device="cpu", method="none")
    assert later.receipt["spec"]["method"] == "block_influence"
    assert later.receipt["exported"]["base"]["pretrained"] == tiny("llama")
    assert "smaller, ordinary checkpoint" in (made.folder / "README.md").read_text()


def test_shapes_that_transformers_has_no_words_for_are_saved_with_the_call_that_reloads_them(tiny, tmp_path):
    made = export(tiny("llama"), tmp_path / "out", method="slicegpt", sparsity=0.2, calibration=families.token_rows())
    assert made.reload == "load_sliced"
    card = (made.folder / "README.md").read_text(encoding="utf-8")
    (call,) = re.findall(r"```python\n(.*?)```", card, flags=re.S)
    scope = {}
    exec(call.replace("THIS_FOLDER", str(made.folder)), scope)
    assert "vLLM cannot load it" in card
    with pytest.raises(OSError, match="no file named"):
        AutoModelForCausalLM.from_pretrained(made.folder)
    in_place = PrunedHFLM(
        pretrained=tiny("llama"), device="cpu", method="slicegpt", sparsity=0.2, calibration=families.token_rows()
    )
    later = PrunedHFLM(pretrained=str(made.folder), device="cpu", method="none")
    assert later.receipt["weights_sha256"] == in_place.receipt["weights_sha256"]
    assert later.receipt["spec"]["method"] == "slicegpt"
    assert later.loglikelihood(choice_requests(DOCS), True) == in_place.loglikelihood(choice_requests(DOCS), True)
    half = PrunedHFLM(pretrained=str(made.folder), device="cpu", method="none", dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    assert load_sliced(made.folder).dtype == torch.float32


def test_a_gguf_file_is_dequantised(tmp_path):
    (tmp_path / "packed").mkdir()
    file = _write(tmp_path / "packed", "llama", families.build("llama"), LLAMA, 2)
    families.tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    made = export(
        str(tmp_path / "packed" / file), tmp_path / "out", method="magnitude", tokenizer=str(tmp_path / "tokenizer")
    )
    assert "quantization_config" not in json.loads((made.folder / "config.json").read_text())
    held = read_export(made.folder)
    assert held["base"]["gguf_file"] == file
    assert inspect_checkpoint(made.folder).blocks.sparsity == pytest.approx(0.5)
    assert "dequantised from GGUF" in (made.folder / "README.md").read_text()
    later = PrunedHFLM(pretrained=str(made.folder), device="cpu", method="none")
    assert later.receipt["weights_sha256"] == made.receipt["weights_sha256"]


def test_method_none_saves_a_dense_copy(tiny, tmp_path):
    made = export(tiny("llama"), tmp_path / "out", method="none")
    assert "dense copy" in (made.folder / "README.md").read_text()
    later = PrunedHFLM(pretrained=str(made.folder), device="cpu", method="none")
    assert later.receipt["weights_sha256"] == made.receipt["weights_sha256"]
    assert "exported" not in later.receipt


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_in_the_way_stays_and_is_named(tiny, tmp_path, kind):
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
        (out / "mine").write_text("mine")
    else:
        out.write_text("mine")
    with pytest.raises(IllusionError, match=r"--out .*out: is a .*; expected a new or empty folder: choose another"):
        export(tiny("llama"), out, method="magnitude")
    assert (out / "mine" if kind == "folder" else out).read_text() == "mine"


def test_an_empty_folder_is_filled_and_readable(tiny, tmp_path):
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    assert export(tiny("llama"), out, method="magnitude").folder == out
    assert stat.S_IMODE(out.stat().st_mode) == 0o777 & ~_umask()


def _umask() -> int:
    held = os.umask(0)
    os.umask(held)
    return held


def test_options_are_checked_before_anything_is_loaded(tmp_path):
    for options, kind, words in (
        ({"method": "wandaa"}, PruneError, r"unknown method 'wandaa'"),
        ({"method": "wanda", "sparsitty": 1}, IllusionError, r"no option 'sparsitty'"),
    ):
        with pytest.raises(kind, match=words):
            export("no/such/model", tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_several_processes_are_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(IllusionError, match=r"started in 2 processes.*start it without torchrun"):
        export(tiny("llama"), tmp_path / "out", method="magnitude")


def test_a_failure_leaves_nothing_behind(tiny, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("lm_eval_illusion.harness.card.write_card", broken)
    with pytest.raises(OSError, match="No space left"):
        export(tiny("llama"), tmp_path / "out", method="magnitude")
    assert list(tmp_path.iterdir()) == []


def test_files_with_other_zeros_than_were_pruned_are_not_exported(tiny, tmp_path, monkeypatch):
    saved = exporting._save

    def dense(lm, folder, shard_size):
        with torch.no_grad():
            lm.model.model.layers[1].mlp.up_proj.weight.fill_(1.0)
        return saved(lm, folder, shard_size)

    monkeypatch.setattr(exporting, "_save", dense)
    words = r"1 matrices were saved with other zeros than were pruned \(first model.layers.1.mlp.up_proj.weight\)"
    with pytest.raises(IllusionError, match=words):
        export(tiny("llama"), tmp_path / "out", method="magnitude")
    assert list(tmp_path.iterdir()) == []


def test_a_quantised_model_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.LlamaForCausalLM.is_quantized", True, raising=False)
    with pytest.raises(IllusionError, match=r"is quantised or cannot be reached.*that it was quantised from"):
        export(tiny("llama"), tmp_path / "out", method="none")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 9}, r"receipt.json: is of schema 9, expected 1; run: pip install --upgrade"),
        ({"receipt": {"spec": {}}}, r"receipt.json: holds no pruning receipt: edited or damaged; export"),
        ({"receipt": None}, r"holds no pruning receipt"),
        ({"receipt": {"spec": {}, "weights_sha256": "ab", "weights": [{"name": 3}]}}, r"holds no pruning receipt"),
    ],
)
def test_a_damaged_receipt_beside_a_checkpoint_is_named(tiny, tmp_path, change, words):
    out = export(tiny("llama"), tmp_path / "out", method="magnitude").folder
    held = json.loads((out / "receipt.json").read_text())
    (out / "receipt.json").write_text(json.dumps({**held, **change}))
    with pytest.raises(IllusionError, match=words):
        PrunedHFLM(pretrained=str(out), device="cpu", method="none").receipt  # noqa: B018
    with pytest.raises(IllusionError, match=words):
        inspect_checkpoint(out)


def test_another_tool_s_receipt_is_passed_over(tiny, tmp_path):
    out = export(tiny("llama"), tmp_path / "out", method="magnitude").folder
    (out / "receipt.json").write_text('{"total": "12.50"}')
    assert PrunedHFLM(pretrained=str(out), device="cpu", method="none").receipt["spec"]["method"] == "none"
    assert inspect_checkpoint(out).receipt is None
