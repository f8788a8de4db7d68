"""The scripts that compare methods and choose mwanda's options run as they are, on tiny models."""

import json
from pathlib import Path

import pytest

from prune_hooks.calibration import builtin_languages
from prune_hooks.calibration.builtin import builtin_documents
from tests.benchmark_scripts import BENCHMARKS, benchmark
from tests.families import save_tiny

HELDOUT = """
import torch

LANGUAGES = ["en", "sw", "ru"]

def rows(tokenizer):
    ids = torch.arange(14 * 24).view(14, 24) % 90 + 3
    return ids, {"en": ids, "multi": ids[:2]}

@torch.no_grad()
def perplexity(model, ids):
    return float(model(ids, labels=ids, use_cache=False).loss.exp())
"""


def here(module, monkeypatch, measured):
    """Measures in this process; notes what is measured; a failure becomes a row as it does in a process."""

    def own(path, argv, cell):
        measured.append(cell)
        try:
            return json.loads(json.dumps(module.measure(module.parse(argv), cell)))
        except Exception as error:
            return {**cell, "error": str(error)}

    monkeypatch.syspath_prepend(str(BENCHMARKS))  # some modules are imported when a row is measured
    monkeypatch.setattr(benchmark("cells"), "in_own_process", own)


def tables(text):
    """Every Markdown table of a text, as lists of rows."""
    found, last = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not line.startswith("|"):
            last = False
        elif not all(set(cell) <= {"-"} and cell != "-" for cell in cells):
            if not last:
                found.append([])
            found[-1].append(cells)
            last = True
    return found


# --- methods.py


@pytest.fixture
def methods(tmp_path, monkeypatch):
    module = benchmark("methods")
    (tmp_path / "heldout.py").write_text(HELDOUT)
    save_tiny("llama", tmp_path / "model")
    module.measured = []
    here(module, monkeypatch, module.measured)
    module.words = [str(tmp_path / "model"), "--heldout", str(tmp_path / "heldout.py"), "--every", "1"]
    module.words += ["--out", str(tmp_path / "rows.json")]
    return module


def test_every_method_has_its_row_and_finished_ones_are_kept(methods, capsys):
    asked = ["--settings", "0.5,2:4", "--slow", "alps", "--blocks", "1"]
    asked += ["--methods", "magnitude,mwanda,wanda+owl,heads", "--options", "mwanda=lambda:1"]
    assert methods.main([*methods.words, *asked]) == 0
    first = capsys.readouterr().out
    english, english_short, _, _, took = tables(first)
    assert english[0] == ["method", "0.5", "2:4"]
    assert [row[0] for row in english[1:]] == ["magnitude", "mwanda", "wanda+owl", "heads"]
    assert [row[2] == "-" for row in english[1:]] == [False, False, True, True]
    assert [row[0] for row in english_short[1:]] == ["alps", "wanda", "sparsegpt"]
    dense = next(row for row in took[1:] if row[0] == "none")
    assert dense[3] == "0.0"
    assert len(took) - 1 == 1 + 2 + 2 + 1 + 1 + 3 * 2 == len(methods.measured)
    slow = [row for row in took[1:] if row[2] == "1"]
    assert all(float(row[5]) == pytest.approx(3 * float(row[4]), abs=0.31) for row in slow)
    pruned = [row for row in took[1:] if row[0] not in ("none", "heads")]
    assert all(float(row[3]) == pytest.approx(0.5, abs=0.02) for row in pruned)  # rows of 32 inputs are rounded down
    methods.measured.clear()
    assert methods.main([*methods.words, *asked]) == 0
    assert methods.measured == []
    assert capsys.readouterr().out == first
    assert methods.main([*methods.words, *asked[:-3], "magnitude,ria", *asked[-2:]]) == 0
    assert [cell["method"] for cell in methods.measured] == ["ria", "ria"]


def test_a_method_that_fails_is_named_and_tried_again(methods, capsys):
    words = [*methods.words, "--settings", "0.5", "--slow", "", "--methods", "wanda,unheard_of"]
    assert methods.main(words) == 1
    assert "- unheard_of 0.5: unknown method 'unheard_of'" in capsys.readouterr().out
    methods.measured.clear()
    assert methods.main(words) == 1
    assert [cell["method"] for cell in methods.measured] == ["unheard_of"]


def test_rows_of_other_options_are_not_taken_over(methods, tmp_path):
    words = [*methods.words, "--settings", "0.5", "--slow", "", "--methods", "magnitude"]
    assert methods.main(words) == 0
    with pytest.raises(SystemExit, match=r"rows\.json holds rows of another dtype: .*name another file"):
        methods.main([*words, "--dtype", "bfloat16"])


def test_two_blocks_are_pruned_and_the_others_not(methods):
    from transformers import AutoModelForCausalLM

    from prune_hooks import PruneSpec, prune

    model = AutoModelForCausalLM.from_pretrained(methods.words[0])
    owner, name, every, factor = methods.shortened(model, 2)
    prune(model, None, PruneSpec(method="magnitude"), progress=False)
    setattr(owner, name, every)
    shares = [float((layer.mlp.up_proj.weight == 0).float().mean()) for layer in model.model.layers]
    assert (shares, factor) == ([0.5, 0.5, 0.0], 1.5)


def test_languages_of_the_shared_rows(methods, tmp_path):
    heldout = methods.load_script(tmp_path / "heldout.py")
    assert methods.row_languages(heldout, [0] * 14) == ["en"] * 10 + ["sw"] * 2 + ["ru"] * 2
    assert methods.row_languages(heldout, [0] * 13) is None
    heldout.row_languages = lambda rows: ["de"] * len(rows)
    assert methods.row_languages(heldout, [0] * 3) == ["de"] * 3


def test_a_cell_in_a_process_of_its_own(tmp_path, monkeypatch):
    cells = benchmark("cells")
    path = tmp_path / "one.py"
    path.write_text(
        "import json, sys\n"
        "cell = json.loads(sys.argv[sys.argv.index('--cell') + 1])\n"
        "if cell['x'] == 2:\n    raise SystemExit('two is too many')\n"
        "print('noise')\nprint(json.dumps({**cell, 'twice': 2 * cell['x'], 'argv': sys.argv[1]}))\n"
    )
    table = cells.Table(tmp_path / "t.json", {"a": (1, 2)})
    rows = cells.measure_all(path, ["--flag"], [{"x": 1}, {"x": 2}], table)
    assert rows == [{"x": 1, "twice": 2, "argv": "--flag"}, {"x": 2, "error": "two is too many"}]
    again = cells.Table(tmp_path / "t.json", {"a": (1, 2)})
    assert again.row({"x": 1}) == rows[0]
    assert again.row({"x": 2}) is None


# --- mwanda_study.py


@pytest.fixture
def study(tmp_path, monkeypatch):
    module = benchmark("mwanda_study")
    save_tiny("llama", tmp_path / "model")
    data = tmp_path / "texts"
    data.mkdir()
    for code in builtin_languages()[:9]:
        texts = [document.text for document in builtin_documents() if document.language == code]
        (data / f"texts.{code}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    module.measured = []
    here(module, monkeypatch, module.measured)
    module.words = [str(tmp_path / "model"), "--data", str(data), "--out", str(tmp_path / "rows.json")]
    module.words += ["--samples", "4", "--length", "40", "--rows", "2"]
    return module


def test_the_choice_is_the_lowest_mean_on_the_rows_to_choose_by(study, capsys):
    assert study.main(["choose", *study.words, "--lambdas", "0,1", "--g", "0"]) == 0
    out = capsys.readouterr().out
    everything, chosen = tables(out)
    rows = everything[1:]
    assert len(rows) == 2 * 3
    best = min(rows, key=lambda row: float(row[4]))
    assert f"at 0.5: lambda {best[3]}, g {best[2]}, allocation {best[1]}" in out
    assert len(chosen[0]) == 1 + 9
    assert [row[0] for row in chosen[1:]] == ["chosen", "wanda"]


def test_lambda_0_is_wanda(study, tmp_path):
    args = study.parse(["calibrate", *study.words])
    mwanda = study.measure(args, {"sparsity": 0.5, "allocation": "uniform", "g": 0.0, "lambda": 0.0})
    wanda = study.measure(args, {"sparsity": 0.5, "method": "wanda", "calibration": "all"})
    assert mwanda["report"] == wanda["report"]
    assert wanda["tokens"].keys() == set(builtin_languages()[:9])


def test_calibrations_are_compared_and_sweeps_written(study, tmp_path, capsys):
    from lm_eval_illusion.harness.sweep.file import read_file

    words = [
        "calibrate",
        *study.words,
        "--targets",
        "de,hi",
        "--methods",
        "wanda",
        "--sweeps",
        str(tmp_path / "sweeps"),
    ]
    assert study.main([*words, "--task", "illusion_mini", "--items", "2"]) == 0
    out = capsys.readouterr().out
    (table,) = tables(out)
    assert [row[2] for row in table[1:]] == ["de", "hi", "en", "all", "mbs"]
    assert {row["calibration"]: set(row["tokens"]) for row in json.loads((tmp_path / "rows.json").read_text())[
        "rows"].values()}["de"] == {"de"}  # fmt: skip
    commands = [line for line in out.splitlines() if line.startswith("lm-eval-illusion sweep ")]
    assert len(commands) == 5
    for command in commands:
        sweep = read_file(Path(command.split()[2]))
        assert sweep.tasks == ["illusion_mini_en", "illusion_mini_de", "illusion_mini_hi"]
        assert Path(sweep.calibration).is_dir()


def test_mwandas_options_reach_the_sweeps_too(study, tmp_path, capsys, monkeypatch):
    from lm_eval_illusion.harness.sweep.file import read_file
    from lm_eval_illusion.harness.sweep.plan import plan_sweep

    asked = []

    def measured(path, argv, cell):
        asked.append(study.options_of(cell, study.parse(argv), ["de"]).get("method_options"))
        return {**cell, "choose": {"de": 1.0}, "report": {"de": 1.0}}

    monkeypatch.setattr(benchmark("cells"), "in_own_process", measured)
    words = ["calibrate", *study.words, "--targets", "de", "--sweeps", str(tmp_path / "sweeps")]
    words += ["--task", "illusion_mini", "--items", "1"]
    assert study.main([*words, "--options", "lambda:0.5+g:1"]) == 0
    assert set(asked) == {None, "lambda:0.5+g:1"}
    file = Path(capsys.readouterr().out.splitlines()[-1].split()[2])
    assert read_file(file).method_options == {"mwanda": {"lambda": 0.5, "g": 1}}
    runs = {point.name: str(point.run.arguments(tmp_path / "out")) for point in plan_sweep(file).points}
    assert {name: "lambda:0.5" in run for name, run in runs.items()} == {name: "mwanda" in name for name in runs}
    assert any("mwanda" in name for name in runs)
    words[words.index("--out") + 1] = str(tmp_path / "other.json")
    assert study.main(words) == 0
    assert read_file(file).method_options == {}


@pytest.mark.parametrize(
    ("study_name", "more", "said"),
    [
        ("calibrate", ["--options", "lamda:1"], r"--options lamda:1: .*lamda"),
        ("calibrate", ["--options", "lambda"], r'--options lambda: .*expected "name:value'),
        ("calibrate", ["--options", "lambda:1", "--methods", "wanda"], r"calibrate of wanda does not ask: .*--methods"),
        ("choose", ["--options", "lambda:1"], r"choose of wanda, mwanda does not ask: leave it out"),
    ],
)
def test_options_of_no_use_are_refused(study, study_name, more, said):
    with pytest.raises(SystemExit, match=said):
        study.main([study_name, *study.words, *more])
    assert study.measured == []


def test_text_is_halved_and_calibration_never_sees_what_is_held_out(study):
    first, second = study.halves(Path(study.words[2]))
    assert list(first) == builtin_languages()[:9]
    assert all(not set(first[code]) & set(second[code]) for code in first)


def test_what_the_study_refuses(study, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    (few / "a.en.txt").write_text("one\n\ntwo")
    with pytest.raises(SystemExit, match=r"has text in en: expected 8 languages or more"):
        study.main(["choose", study.words[0], "--data", str(few), "--out", str(tmp_path / "x.json")])
    with pytest.raises(SystemExit, match=r"has no text in yo: it has ar, bn"):
        study.main(["calibrate", *study.words, "--targets", "yo"])
    texts = {"en": ["too short"]}
    tokenizer = type("Letters", (), {"bos_token_id": None, "__call__": lambda self, text, **_: type(
        "E", (), {"input_ids": [ord(c) for c in text]})})()  # fmt: skip
    with pytest.raises(SystemExit, match=r"en has 9 held-out tokens: expected more than 2 rows of 8; lower --rows"):
        study.heldout_rows(texts, tokenizer, 2, 8)


def test_the_mean_over_languages_by_hand(study):
    assert study.mean({"a": 2.0, "b": 8.0}) == pytest.approx(4.0)
