"""Build steps that setup.cfg cannot express.

Two files must lie at the root of every wheel, ordinary or editable, so that `lm_eval` finds this project by itself
(lm-eval 0.4.13 loads no entry points): a `.pth` file for Python up to 3.14 and a `.start` file of the same name for
3.15 and later (PEP 829). Both arm the hook in `_lm_eval_illusion_autoload.py`; docs/decisions.md says what it does.
"""

from pathlib import Path
from typing import Any

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

HOOK = "_lm_eval_illusion_autoload"
STARTUP = {
    "lm_eval_illusion_autoload.pth": (
        f"import sys; exec('try:\\n import {HOOK} as h\\n h.install()\\nexcept Exception: pass')\n"
    ),
    "lm_eval_illusion_autoload.start": f"{HOOK}:install\n",
}
ROOT = Path(__file__).resolve().parent


class BuildWithHook(build_py):
    """Put the start-up files beside the packages of an ordinary wheel."""

    def run(self) -> None:
        """Build as usual, then write the two files."""
        super().run()
        if getattr(self, "editable_mode", False):
            return
        for name, text in STARTUP.items():
            Path(self.build_lib, name).write_text(text, encoding="utf-8")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """List the start-up files too, so that an uninstall takes them along."""
        extra = [] if getattr(self, "editable_mode", False) else [str(Path(self.build_lib, name)) for name in STARTUP]
        return [*super().get_outputs(include_bytecode), *extra]


class EditableWithHook(editable_wheel):
    """Put the start-up files, and a copy of the hook, into an editable wheel.

    "compat" puts the checkout's folder on the path; setuptools' default, an import finder, costs every start of
    Python 8 ms. The hook's module is copied, so that it is there even before that path is.
    """

    def finalize_options(self) -> None:
        """Choose the path-based kind of editable install unless the user named one."""
        super().finalize_options()
        self.mode = self.mode or "compat"

    def _select_strategy(self, *args: Any) -> Any:
        strategy = super()._select_strategy(*args)
        write = type(strategy).__call__
        files = {**STARTUP, f"{HOOK}.py": (ROOT / f"{HOOK}.py").read_text(encoding="utf-8")}

        class WithHook(type(strategy)):  # type: ignore[misc]
            def __call__(self, wheel: Any, *rest: Any) -> Any:
                result = write(self, wheel, *rest)
                for name, text in files.items():
                    wheel.writestr(name, text)
                return result

        strategy.__class__ = WithHook
        return strategy


setup(
    packages=[
        *find_packages(include=["lm_eval_illusion", "lm_eval_illusion.*", "prune_hooks", "prune_hooks.*"]),
        "lm_eval_illusion.tasks",
    ],
    package_dir={"lm_eval_illusion.tasks": "tasks"},
    py_modules=[HOOK],
    package_data={
        "lm_eval_illusion": ["**/*.json", "**/*.j2", "**/*.jinja", "**/*.md", "**/*.css", "**/*.js", "py.typed"],
        "lm_eval_illusion.tasks": ["**/*"],
        "prune_hooks": ["**/*.json", "**/*.txt", "py.typed"],
    },
    cmdclass={"build_py": BuildWithHook, "editable_wheel": EditableWithHook},
)
