"""Prune a transformers model in place, on the device its weights are on, and say what was done.

    from prune_hooks import PruneSpec, prune

    receipt = prune(model, tokenizer, PruneSpec(method="wanda", sparsity=0.5))
    print(receipt.table())

Importing this package imports neither torch nor transformers: names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prune_hooks.errors import PruneError
from prune_hooks.spec import PruneSpec

if TYPE_CHECKING:
    from prune_hooks.api import prune
    from prune_hooks.mask_files import put_mask, save_mask
    from prune_hooks.receipt import Receipt
    from prune_hooks.registry import get_method, method_names, register_method

__version__ = "0.1.0"

__all__ = [
    "PruneError",
    "PruneSpec",
    "Receipt",
    "__version__",
    "get_method",
    "method_names",
    "prune",
    "put_mask",
    "register_method",
    "save_mask",
]

_LAZY = {
    "Receipt": "prune_hooks.receipt",
    "get_method": "prune_hooks.registry",
    "method_names": "prune_hooks.registry",
    "prune": "prune_hooks.api",
    "put_mask": "prune_hooks.mask_files",
    "save_mask": "prune_hooks.mask_files",
    "register_method": "prune_hooks.registry",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'prune_hooks' has no attribute {name!r}; it has {', '.join(__all__)}")
