"""A report over many runs stays readable: one overview, no table wider than the terminal, nothing said ten times."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.build import DEFAULTS
from lm_eval_illusion.report.headline import in_short
from lm_eval_illusion.report.render.overview import MANY, distinct_notes, overview_table, shown_first
from lm_eval_illusion.report.render.text import render_text

LANGUAGES = ("ar", "en", "ko", "ru", "sw", "te")


def shown(report, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(render_text(report))
    return stream.getvalue()


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    """Dense and nine pruned runs, six languages of ten items."""
    folder = tmp_path_factory.mktemp("ten")

    def questions(letters, broken=0):
        made = [q for language in LANGUAGES for q in pattern(letters, language=language)]
        for question in made[:broken]:
            question.flags = {"repeated": True}
        return made

    runs = [write_run(folder / "dense", questions("bbbbbrrrrn"), pruning=receipt("none", 0.0))]
    for method, letters in (("magnitude", "brrnnnnnnn"), ("wanda", "bbrrrrrnnn"), ("sparsegpt", "bbbrrrrnnn")):
        for number, sparsity in enumerate((0.4, 0.5, 0.6)):
            made = questions(letters[number:] + "n" * number, broken=10 * number)
            runs.append(write_run(folder / f"{method}{sparsity}", made, pruning=receipt(method, sparsity)))
    return build_report(runs)


def test_ten_runs_fit_a_few_screens(ten):
    for width, most in ((80, 100), (160, 90)):
        text = shown(ten, width)
        assert len(text.splitlines()) <= most
        assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= width
        for words in ("All runs at a glance", "Right answers against sparsity", "Every comparison", "sparsegpt 0.6"):
            assert words in text


def test_no_cell_of_the_summaries_is_folded(ten):
    """At 80 columns a table leaves columns out rather than breaking numbers over lines."""
    text = shown(ten, 80)
    glance = text.split("All runs at a glance")[1].split("Against the first run")[0]
    rows = [line for line in glance.splitlines() if line.strip() and "─" not in line][1:]
    assert len(rows) == 10
    curves = text.split("Right answers against sparsity")[1].split("Overall, with")[0]
    assert curves.count("[") == 3 * 10
    assert all("]" in part.split("\n")[0] for part in curves.split("[")[1:])
    assert "Too wide for here: excess near, p near, excess far, p far, G change, p G" in " ".join(text.split())


def test_wide_terminals_leave_nothing_out(ten):
    assert "Too wide" not in shown(ten, 240)


def test_markdown_opens_with_the_overview(ten, tmp_path):
    write_report(ten, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    top = text.split("## Curves")[0]
    assert len(top.splitlines()) < 40
    assert "All runs at a glance" in top
    section = text.split("## wanda 0.5 against dense")[1].split("\n## ")[0]
    assert "- dense → wanda 0.5 on 60 items" in section  # the sentences stand with their comparison
    assert "| tydiqa te * |" in section


def test_overview_figures(ten):
    table = overview_table(ten.file)
    assert table.rows[0] == ["dense", "60", "0.90", "0.90", "0.50", "0.40", "0.40", *["–"] * 6]
    wanda = next(row for row in table.rows if row[0] == "wanda 0.4")
    assert wanda[1:7] == ["60", "0.70", "0.70", "0.20", "0.50", "0.50"]
    assert wanda[7].startswith("+0.10 [")
    weak = next(row for row in table.rows if row[0] == "magnitude 0.6")  # R 1/10, below chance
    guess = next(row for row in table.rows if row[0] == "magnitude 0.4")
    assert (weak[5:7], guess[5:7]) == (["0.10 †", "0.10 †"], ["0.20 †", "0.20 †"])
    assert "†: multiple choice is not above chance" in table.said()
    assert "†" not in table.said(table.rows[:1])


def test_many_runs_have_a_sentence_each(ten, tmp_path):
    said = shown_first(ten.file)
    assert len(said) == len(ten.file.comparisons)
    assert said[0] == "magnitude 0.4: near and far gap not interpretable; generation fell by 0.40."
    assert said[3] == "wanda 0.4: near and far gap not shown to change; generation fell by 0.30."
    write_report(ten, tmp_path / "out")
    top = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").split("### All runs at a glance")[0]
    assert all(f"- {line}" in top for line in said)


@pytest.mark.parametrize(
    ("dense", "pruned", "words"),
    [
        ("b" * 40, "b" * 10 + "r" * 30, "near and far gap widened; generation fell by 0.75."),
        ("r" * 20 + "b" * 20, "b" * 40, "near and far gap narrowed; generation rose by 0.50."),
        ("br" * 40, "br" * 40, "near and far gap stayed within the margin; generation not shown to change."),
        ("b" * 40, "r" * 10 + "n" * 30, "near and far gap not interpretable; generation fell by 1.00."),
        ("bbrn", "brrn", "undecided, 4 items in 4 passages; a verdict takes 30 in 8."),
    ],
)
def test_a_run_in_one_sentence(tmp_path, dense, pruned, words):
    runs = [write_run(tmp_path / "a", pattern(dense)), write_run(tmp_path / "b", pattern(pruned), pruning=receipt())]
    comparison = build_report(runs).file.comparisons[0]
    assert in_short(comparison.rows[0], "wanda 0.5", DEFAULTS) == f"wanda 0.5: {words}"


def test_near_and_far_are_told_apart_in_the_sentence(tmp_path):
    dense, pruned = pattern("b" * 40), pattern("b" * 10 + "r" * 30)
    for question in pruned:
        question.far = question.gen
    runs = [write_run(tmp_path / "a", dense), write_run(tmp_path / "b", pruned, pruning=receipt())]
    row = build_report(runs).file.comparisons[0].rows[0]
    said = in_short(row, "w", DEFAULTS)
    assert said == "w: near gap widened; far gap not interpretable; generation fell by 0.75."
    assert in_short(row.model_copy(update={"contrast": None}), "w", DEFAULTS) == "w: no items to compare."


def test_few_runs_keep_their_tables(tmp_path):
    runs = [write_run(tmp_path / "a", pattern("bbrn" * 10))]
    runs += [write_run(tmp_path / f"{n}", pattern("brrn" * 10), pruning=receipt("wanda", n / 10)) for n in (4, 5, 6)]
    report = build_report(runs)
    assert len(report.file.comparisons) == MANY - 1
    assert shown_first(report.file) == report.file.headline
    text = shown(report, 160)
    assert "All runs at a glance" not in text
    assert text.count("What pruning changed") == 3


def test_alarms_stay_on_top_of_many_runs(tmp_path):
    questions = pattern("bbrn", passage="The passage itself.")
    runs = [write_run(tmp_path / "a", questions)]
    runs += [write_run(tmp_path / f"{n}", questions, pruning=receipt("wanda", n / 10)) for n in (4, 5, 6)]
    runs.append(write_run(tmp_path / "x", questions, pruning=receipt(texts=["The passage itself."], prune_seed=1)))
    report = build_report(runs)
    assert len(report.file.headline) > len(shown_first(report.file))
    assert [line.startswith("ALARM") for line in shown_first(report.file)].index(False) == 5
    assert "was calibrated on texts that are evaluated" in shown_first(report.file)[0]
    assert "ALARM: wanda 0.5 seed 1 was calibrated" in " ".join(shown(report, 100).split())
    write_report(report, tmp_path / "out")
    assert "- **ALARM: wanda 0.5 seed 1 was" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_a_note_of_several_comparisons_is_given_once(ten):
    texts = [note.text for note in distinct_notes(ten.file.comparisons)]
    assert len(set(texts)) == len(texts)
    assert "100% of golds are the longest near option (chance 25%): a leak. (9 comparisons)" in texts
    assert any(text.startswith("Answers of wanda 0.6: 33% repeated.") for text in texts)


def test_a_note_of_several_runs_is_given_once(ten, tmp_path):
    said = [note.text for note in ten.file.notes if note.text.startswith("Calibration and evaluated")]
    named = "magnitude 0.4, magnitude 0.5, magnitude 0.6, wanda 0.4 and 5 more runs"
    assert [text.split(":")[0] for text in said] == [f"Calibration and evaluated passages of {named}"]
    models = ({"dtype": "float32"}, {"dtype": "bfloat16"}, {"dtype": "bfloat16"}, {"dtype": "float16"})
    runs = [write_run(tmp_path / "0", [Question(n) for n in range(4)], model=models[0])]
    for number, model in enumerate(models[1:], 1):
        made = write_run(tmp_path / f"{number}", pattern("bbrn"), pruning=receipt("wanda", number / 10), model=model)
        runs.append(made)
    warned = [note.text for note in build_report(runs).file.notes if note.text.startswith("dtype differs")]
    assert warned == [
        "dtype differs: float32 in dense, bfloat16 in wanda 0.1, wanda 0.2.",
        "dtype differs: float32 in dense, float16 in wanda 0.3.",
    ]
