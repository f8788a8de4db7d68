"""The shape of a model: which parameters and modules it is made of, noted once and put back.

Structured methods never write into a parameter they find: they put smaller ones in its place, drop blocks, and set
attributes. What they found is therefore whole, and putting the references back undoes everything. While a model is cut
its dense parameters stay in memory with whoever holds its `Structure`.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

_TABLES = ("_parameters", "_modules")


class Structure:
    """What a model is made of at one moment, its configuration included."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._parts = [
            (module, type(module), {name: dict(vars(module)[name]) for name in _TABLES}, _plain(module))
            for module in model.modules()
        ]
        self._config = copy.deepcopy(vars(model.config)) if hasattr(model, "config") else None

    @property
    def changed(self) -> bool:
        """True if a parameter or module is no longer the one that was found."""
        return any(
            vars(module)[name].keys() != table.keys() or any(vars(module)[name][key] is not table[key] for key in table)
            for module, _, tables, _ in self._parts
            for name, table in tables.items()
        )

    def restore(self) -> None:
        """Puts everything back if the model was cut; one that was not is left alone, whatever was set on it since."""
        if not self.changed:
            return
        for module, kind, tables, plain in self._parts:
            if type(module) is not kind:
                module.__class__ = kind
            for name, table in tables.items():
                held = vars(module)[name]
                held.clear()
                held.update(table)
            for name in set(_plain(module)) - set(plain):
                del vars(module)[name]
            vars(module).update(plain)
        if self._config is not None:
            held = vars(self._model.config)
            held.clear()
            held.update(copy.deepcopy(self._config))


def _plain(module: nn.Module) -> dict[str, Any]:
    """The module's own attributes beside what PyTorch and accelerate keep there."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "forward"}
