"""The report half stands alone, and is quick."""

import subprocess
import sys
import time

from synthetic import Question, receipt, write_run

from lm_eval_illusion.report import build_report


def test_imports_neither_torch_nor_lm_eval():
    code = (
        "import sys, lm_eval_illusion.report, lm_eval_illusion.report.render.text, lm_eval_illusion.errors;"
        "print(sorted(m for m in ('torch', 'lm_eval', 'transformers', 'datasets') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ten_thousand_items_join_in_time(tmp_path):
    passage = "Paris, Rome, Oslo, Bonn und ein Satz dazu, שלום, नमस्ते. " * 3

    def questions(shift):
        right = [(n % 3 > 0, (n + shift) % 4 > 1, n % 5 > 0) for n in range(10_000)]
        return [
            Question(n, near=near, gen=gen, far=far, language=f"l{n % 5}", cluster=f"p{n // 7}", passage=passage)
            for n, (near, gen, far) in enumerate(right)
        ]

    one = write_run(tmp_path / "a", questions(0))
    two = write_run(tmp_path / "b", questions(1), pruning=receipt())
    start = time.process_time()  # seconds of work: a busy machine does not count
    report = build_report([one, two])
    assert time.process_time() - start < 10
    assert report.file.comparisons[0].rows[0].joined == 10_000
