"""Makes a task folder of a user's own questions, which `lm_eval --include_path` takes: every condition, every language.

The folder is made under another name and renamed when everything in it is there and its tasks could be built.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness import plugin
from lm_eval_illusion.harness.task_files import task_files
from lm_eval_illusion.pairs import own_folder
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES, PROBES
from lm_eval_illusion.pairs.own import read_own
from lm_eval_illusion.pairs.questions import Question
from lm_eval_illusion.pairs.tables import SPLIT

_COMMON = "common"
_NAME = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")


@dataclass(frozen=True)
class Written:
    """What was made of a file of questions."""

    folder: Path
    """The task folder."""
    name: str
    """How its tasks' names begin."""
    questions: Mapping[str, int]
    """Language -> questions in the file."""
    usable: Mapping[str, Mapping[str, int]]
    """Language -> condition -> how many of them can be asked so."""
    left_out: Mapping[str, Mapping[str, int]]
    """Language -> why -> how many are left out of every condition."""
    shots: int
    """Demonstrations that every question finds: 1, or 0 where there are too few passages."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to run next: both models, what they failed, and the report."""
        models = {"dense": "method=none", "pruned": "method=wanda,sparsity=0.5"}
        where = f"--include_path {self.folder}"
        shots = f"--num_fewshot {self.shots}"
        halves = ",".join(f"{self.name}_{half}" for half in HALVES)
        runs = f"runs/pair-{self.name}"
        both = " ".join(f"--probe-failures {runs}/{kind}" for kind in models)
        asked, probed = [], []
        for kind, options in models.items():
            model = f"--model pruned_hf --model_args pretrained=MODEL,{options} {where}"
            asked.append(f"lm_eval {model} --tasks {halves} {shots} --log_samples --output_path {runs}/{kind}")
            probed.append(
                f"lm-eval-illusion run {both} {model} --tasks {self.name}_{PROBES} {shots} "
                f"--output_path {runs}/{kind}-probes"
            )
        joined = " ".join(f"{runs}/{kind}+{runs}/{kind}-probes" for kind in models)
        return (*asked, *probed, f"lm-eval-illusion report {joined} --out {runs}/report")


def write_pair(path: Path, name: str, *, language: str | None = None, out: Path = Path(), seed: int = 0) -> Written:
    """Check a file of questions and write its task folder, `out`/`name`.

    Args:
        path: SQuAD-format JSON or JSONL.
        name: How the tasks' names are to begin.
        language: ISO 639-1 code of rows that name none.
        out: Where the folder is to lie.
        seed: Of options and their order.

    Raises:
        BadRowsError: Rows that cannot be used, all of them listed.
        IllusionError: The name or folder is taken, the file cannot be read, or a language has no usable question.
    """
    _check_name(name)
    folder = out / name
    if folder.exists():
        raise IllusionError(f"{folder} is already there; remove it, or choose another --name or --out")
    questions = read_own(path, name, language)
    make_folder(out)
    with tempfile.TemporaryDirectory(dir=out, prefix=f".{name}-") as scratch:
        made = Path(scratch) / name
        made.mkdir()
        for code, asked in questions.items():
            text = own_folder.squad_text(asked, code)
            (made / own_folder.questions_file(code)).write_text(text, encoding="utf-8")
        written = _count(made, name, questions, seed, folder)
        _write_tasks(made, written, seed)
        made.rename(folder)
    return written


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise IllusionError(
            f"--name {name!r}: names of tasks begin with it; expected small letters, digits and _, as in my_questions"
        )
    shipped = sorted(DATASETS)
    if any(name == known or name.startswith(f"{known}_") for known in shipped):
        raise IllusionError(
            f"--name {name!r} is taken by the sets that are shipped ({', '.join(shipped)}); choose another"
        )
    import lm_eval.tasks

    here = Path(lm_eval.tasks.__file__).parent
    taken = {f"{name}_{condition}" for condition in CONDITIONS}
    found = sorted({p.stem for p in here.glob(f"**/{name}_*.yaml") if any(p.stem.startswith(t) for t in taken)})
    if found or (here / name).is_dir():
        raise IllusionError(
            f"--name {name!r} is taken by the harness's own tasks ({found[0] if found else name}); choose another"
        )


def _count(made: Path, name: str, questions: Mapping[str, Sequence[Question]], seed: int, folder: Path) -> Written:
    usable: dict[str, dict[str, int]] = {}
    left_out: dict[str, dict[str, int]] = {}
    shots = 1
    for code in questions:
        built = own_folder.built(made, name, code, seed)
        left_out[code] = built.excluded
        usable[code] = {c: _rows(made, name, code, c, seed) for c, told in CONDITIONS.items() if not told.answers_from}
        shots = min(shots, own_folder.demonstrations(made, name, code, built, seed))
    return Written(folder, name, {code: len(asked) for code, asked in questions.items()}, usable, left_out, shots)


def _rows(made: Path, name: str, language: str, condition: str, seed: int) -> int:
    """Return how many rows a task would have; 0 where it cannot be asked of a set so small."""
    told = {} if condition in HALVES else {"pairs_condition": condition}
    try:
        table = own_folder.load(made, pairs_dataset=name, pairs_language=language, pairs_seed=seed, **told)
    except IllusionError:
        return 0
    return sum(table[SPLIT]["sampled"])


def _write_tasks(made: Path, written: Written, seed: int) -> None:
    """Write the task files of every condition that every language can be asked under, their templates and functions."""
    asked = [name for name in CONDITIONS if all(counts.get(name, 1) for counts in written.usable.values())]
    files = task_files(written.name, written.usable, asked, templates=_COMMON, extra_kwargs={"pairs_seed": str(seed)})
    for name, text in files.items():
        (made / name).write_text(text, encoding="utf-8")
    shared = plugin.tasks_folder() / _COMMON
    (made / _COMMON).mkdir()
    for name in asked:
        shutil.copyfile(shared / f"{name}_template", made / _COMMON / f"{name}_template")
    functions = _functions((shared / "utils.py").read_text(encoding="utf-8"))
    (made / _COMMON / "utils.py").write_text(functions, encoding="utf-8")


def _functions(shared: str) -> str:
    """Return the shared functions of the task templates with a `load` that reads the folder's own questions."""
    imports = [node for node in ast.parse(shared).body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        node.names = [alias for alias in node.names if alias.name != "load"]
    lines = ['"""Names that the task templates call; the questions lie in the folder above this file."""', ""]
    taken = ["from lm_eval_illusion.pairs import own_folder", *(ast.unparse(node) for node in imports if node.names)]
    lines += ["from pathlib import Path", "", *sorted(taken)]
    lines += ["", "FOLDER = Path(__file__).resolve().parent.parent", "", "", "def load(**told):"]
    lines += ['    """Build the table of one task."""', "    return own_folder.load(FOLDER, **told)"]
    return "\n".join(lines) + "\n"
