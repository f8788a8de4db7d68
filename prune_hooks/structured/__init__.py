"""Methods that remove whole structures, one file each; importing this package registers them all.

    from prune_hooks.structured import load_sliced, save_sliced

save and load models of shapes that transformers cannot rebuild (a receipt's `structured` says which).
"""

from prune_hooks.structured import blocks, heads, l0, slicegpt
from prune_hooks.structured.files import load_sliced, save_sliced
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured

__all__ = [
    "Job",
    "StructuredOutcome",
    "blocks",
    "heads",
    "l0",
    "load_sliced",
    "register_structured",
    "save_sliced",
    "slicegpt",
]
