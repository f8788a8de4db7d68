"""The harness finds the model and the tasks by itself, and never suffers for it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import _lm_eval_illusion_autoload as hook
from lm_eval_illusion.harness import names, plugin

ROOT = Path(__file__).resolve().parent.parent.parent


def python(code: str, *flags: str, args: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        cwd=os.sep,
        env={**os.environ, **env},
        check=False,
    )


def test_hook_adds_our_model_and_hides_none_of_the_harness_own():
    seen = python(
        """
        from lm_eval.api.registry import get_model, model_registry
        print(get_model("dummy").__name__, *[name in model_registry for name in ("pruned_hf", "hf", "vllm")])
        """
    )
    assert seen.stdout.split() == ["DummyLM", "True", "True", "True"], seen.stderr


def test_hook_adds_our_tasks_to_the_default_index_only():
    seen = python(
        """
        from lm_eval.tasks import TaskManager
        import lm_eval.tasks._index as index
        from pathlib import Path
        default = Path(index.__file__).parent
        class Few(index.TaskIndex):
            pass
        original = index.TaskIndex._iter_yaml_files
        index.TaskIndex._iter_yaml_files = staticmethod(lambda root: [] if Path(root) == default else original(root))
        print("tydiqa_mc_sw" in TaskManager().all_tasks, "tydiqa_gen" in TaskManager().all_groups)
        print("tydiqa_mc_sw" in TaskManager(include_defaults=False).all_tasks)
        """
    )
    assert seen.stdout.split() == ["True", "True", "False"], seen.stderr


def test_index_reads_only_our_files_without_their_includes(tmp_path):
    for name, text in {"shared": "output_type: generate_until\n", "own.yaml": "include: shared\ntask: own\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    seen = python(
        """
        import sys
        from pathlib import Path
        import lm_eval.tasks._index as index
        from lm_eval.tasks import TaskManager
        default = Path(index.__file__).parent
        original = index.TaskIndex._iter_yaml_files
        index.TaskIndex._iter_yaml_files = staticmethod(lambda root: [] if Path(root) == default else original(root))
        manager = TaskManager(include_path=sys.argv[1])
        print("output_type" in manager._index["own"].cfg, "output_type" in manager._index["illusion_mini_gen_sw"].cfg)
        print(manager.load(["illusion_mini_gen_sw"])["tasks"]["illusion_mini_gen_sw"].OUTPUT_TYPE)
        """,
        args=(str(tmp_path),),
    )
    assert seen.stdout.split() == ["True", "False", "generate_until"], seen.stderr


def test_hook_can_be_switched_off():
    code = """
        import lm_eval.models
        from lm_eval.api.registry import model_registry
        print('pruned_hf' in model_registry)
        """
    assert python(code, LM_EVAL_ILLUSION_AUTOLOAD="0").stdout.strip() == "False"
    assert python(code, LM_EVAL_ILLUSION_AUTOLOAD="1").stdout.strip() == "True"


def test_a_broken_plugin_leaves_the_harness_whole_and_python_silent(tmp_path):
    package = tmp_path / "lm_eval_illusion" / "harness"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text("raise RuntimeError('planted')")
    seen = python(
        """
        import lm_eval.models
        from lm_eval.api.registry import get_model
        from lm_eval.tasks import TaskManager
        import _lm_eval_illusion_autoload as hook
        print(get_model("dummy").__name__, len(hook.errors), hook.errors[0])
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout.startswith("DummyLM 2 register_models: RuntimeError: planted")
    assert "planted" not in seen.stderr


def test_a_broken_finder_is_remembered_and_does_not_raise(monkeypatch):
    class Raises:
        @staticmethod
        def find_spec(*_):
            raise ValueError("planted")

    monkeypatch.setattr(sys, "meta_path", [Raises])
    monkeypatch.setattr(hook, "errors", [])
    assert hook.HarnessFinder.find_spec("lm_eval.models") is None
    assert hook.errors == ["lm_eval.models: ValueError: planted"]
    assert hook.HarnessFinder.find_spec("json") is None


def test_pth_line_is_silent_when_the_package_is_gone(tmp_path):
    import setuptools

    captured = {}
    original, setuptools.setup = setuptools.setup, lambda **kw: captured.update(kw)
    try:
        scope: dict = {"__file__": str(ROOT / "setup.py"), "__name__": "setup"}
        exec(compile((ROOT / "setup.py").read_text(encoding="utf-8"), "setup.py", "exec"), scope)
    finally:
        setuptools.setup = original
    line = scope["STARTUP"]["lm_eval_illusion_autoload.pth"]
    assert line.startswith("import ")
    assert line.count("\n") == 1
    gone = line.replace("_lm_eval_illusion_autoload", "_lm_eval_illusion_gone")
    seen = python(gone, "-S")
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "", "")


def test_registering_twice_changes_nothing():
    from lm_eval.api.registry import model_registry
    from lm_eval.tasks._index import TaskIndex

    plugin.register()
    first = TaskIndex.build
    plugin.register()
    assert TaskIndex.build is first
    assert "pruned_hf" in model_registry


def test_entry_point_names_the_registered_class():
    config = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert f"{plugin.MODEL_NAME} = {plugin.MODEL_TARGET}" in config
    from lm_eval_illusion.harness.model import PrunedHFLM

    assert f"{PrunedHFLM.__module__}:{PrunedHFLM.__name__}" == plugin.MODEL_TARGET


def test_every_promised_task_has_a_file():
    stems = {path.stem for path in plugin.tasks_folder().glob("*/*.yaml")}
    assert set(names.all_tasks()) <= stems


def test_missing_tasks_folder_says_how_to_mend(monkeypatch, tmp_path):
    monkeypatch.setattr(plugin, "__file__", str(tmp_path / "a" / "b" / "plugin.py"))
    with pytest.raises(FileNotFoundError, match=r"no task files in .*; reinstall with: pip install"):
        plugin.tasks_folder()
