"""Tells lm-evaluation-harness about this project as soon as something imports the harness.

A `.pth` file runs `install` when Python starts: lm-eval 0.4.13 loads no entry points, so without it
`lm_eval --model pruned_hf` would end in "no model for this name found". It adds one finder to `sys.meta_path` that
does nothing until `lm_eval.models` or `lm_eval.tasks._index` is imported, and never raises. The environment variable
LM_EVAL_ILLUSION_AUTOLOAD=0 switches it off; uninstalling the package removes it. It runs at every start of Python in
the environment, so it imports nothing that Python has not loaded by then.
"""

import sys

ON_IMPORT = {
    "lm_eval.models": "register_models",
    "lm_eval.tasks._index": "register_tasks",
}
"""Module of the harness -> function of `lm_eval_illusion.harness.plugin` to call once it has been executed."""

errors = []
"""What went wrong, as strings, for `lm-eval-illusion doctor`: the hook itself stays silent."""


def _call(function_name):
    try:
        from lm_eval_illusion.harness import plugin

        getattr(plugin, function_name)()
    except Exception as error:
        errors.append(f"{function_name}: {type(error).__name__}: {error}")


class HarnessFinder:
    """A meta path finder that lets two modules of the harness load as usual and then calls the plugin."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Return the module's real spec with a loader that calls the plugin afterwards; None for all other modules."""
        if name not in ON_IMPORT:
            return None
        try:
            for finder in sys.meta_path:
                if finder is HarnessFinder or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
            else:
                return None
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _call(ON_IMPORT[name])

            spec.loader.exec_module = exec_module
        except Exception as error:
            errors.append(f"{name}: {type(error).__name__}: {error}")
            return None
        return spec


def install():
    """Arm the hook once, unless LM_EVAL_ILLUSION_AUTOLOAD is 0. Never raises."""
    try:
        import os

        if os.environ.get("LM_EVAL_ILLUSION_AUTOLOAD", "1").strip().lower() in ("0", "false", "no", "off"):
            return
        if HarnessFinder not in sys.meta_path:
            sys.meta_path.insert(0, HarnessFinder)
        for name, function_name in ON_IMPORT.items():
            if name in sys.modules:
                _call(function_name)
    except Exception as error:
        errors.append(f"install: {type(error).__name__}: {error}")


def armed():
    """Say whether the finder is on `sys.meta_path`."""
    return HarnessFinder in sys.meta_path
