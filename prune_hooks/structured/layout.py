"""What a cut model carries so that it can be saved: its dense configuration and the shapes that were made of it."""

from __future__ import annotations

from typing import Any

from prune_hooks.errors import PruneError

_NAME = "prune_hooks_layout"


def keep_layout(model: Any, layout: dict[str, Any]) -> None:
    """Notes the layout on the model, where `save_sliced` finds it."""
    setattr(model, _NAME, layout)


def layout_of(model: Any) -> dict[str, Any] | None:
    """Returns the layout of a model, None if transformers itself can rebuild its shapes."""
    layout: dict[str, Any] | None = getattr(model, _NAME, None)
    return layout


def require_dense(model: Any, method: str) -> None:
    """Raises PruneError for a model that carries a layout: its shapes are no longer what a method expects."""
    layout = layout_of(model)
    if layout is not None:
        raise PruneError(
            f"method {method!r} on a model already changed in shape ({layout['kind']}): expected a dense model; load "
            "it anew, or prune once with one method"
        )
