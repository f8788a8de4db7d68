"""The matrices of a pruning receipt, block by block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lm_eval_illusion.report.schema import LayerSparsity

__all__ = ["layers_of"]

_BLOCK = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def layers_of(receipt: Mapping[str, Any]) -> list[LayerSparsity] | None:
    """Weights and zeros of each kind of matrix in each block, in the receipt's order.

    Args:
        receipt: As `prune_hooks` wrote it.

    Returns:
        None where no matrices are listed, or the method removed structures: what is left of those has no zeros.

    Raises:
        TypeError: The list of matrices is damaged.
    """
    records = receipt.get("weights")
    if not records or receipt.get("structured"):
        return None
    if not isinstance(records, list):
        raise TypeError(f"weights is a {type(records).__name__}")
    sums: dict[tuple[int | None, str], list[int]] = {}
    for number, record in enumerate(records):
        try:
            name, (rows, columns), zeros = str(record["name"]), record["shape"], record["zeros_after"]
            total = sums.setdefault(_place(name), [0, 0])
            total[0] += int(rows) * int(columns)
            total[1] += int(zeros)
        except (KeyError, TypeError, ValueError):
            raise TypeError(f"weights[{number}] is no record of a matrix") from None
    layers = [
        LayerSparsity(block=block, part=part, weights=weights, zeros=zeros)
        for (block, part), (weights, zeros) in sums.items()
    ]
    wrong = next((layer for layer in layers if not 0 <= layer.zeros <= layer.weights or not layer.weights), None)
    if wrong is not None:
        raise TypeError(f"{wrong.part} has {wrong.zeros} zeros among {wrong.weights} weights")
    return layers


def _place(name: str) -> tuple[int | None, str]:
    """`model.layers.3.mlp.experts.7.up_proj.weight` -> (3, `mlp.experts.*.up_proj`)."""
    bare = name.removesuffix(".weight")
    found = _BLOCK.search(bare)
    if found is None:
        return None, bare
    return int(found[1]), _BLOCK.sub(lambda number: number[0].replace(number[1], "*"), bare[found.end() + 1 :])
