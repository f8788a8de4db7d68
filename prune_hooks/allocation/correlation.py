"""Rule "correlation": blocks by how alike the languages are in them, our reading of M-Wanda (Choenni and Titov 2025).

The paper's formulas are not public to us. We take n_jl, the root mean square of input channel j over the tokens of
language l in the dense model; correlate it over the channels of an input for every pair of languages; average over the
pairs, then over the block's inputs; and map the averages to sparsities as OWL does. Which blocks are to stay denser,
those where languages agree or those where they differ, is an option, to be chosen on held-out perplexity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prune_hooks.allocation.spread import sizes_of, spread
from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.registry import Allotment, Look, register_allocation
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Targets
from prune_hooks.weights import Weight

SIGNS = {"plus": 1.0, "minus": -1.0}


@register_allocation(
    "correlation",
    options={
        "lambda": Option(0.08, least=0, most=1, about="half the width of the range of sparsities"),
        "sign": Option("plus", choices=tuple(SIGNS), about="plus: blocks where languages agree stay denser"),
    },
    needs=Needs.LANGUAGES,
)
def correlation(targets: Targets, sparsity: float, options: Mapping[str, Any], look: Look) -> Allotment:
    """Returns the block sparsities with each block's mean correlation between languages."""
    found = [
        block_correlation(block.name, inputs) if inputs else None
        for block, inputs in zip(targets.blocks, look, strict=True)
    ]
    known = [value for value in found if value is not None]
    values = [sum(known) / len(known) if value is None else value for value in found]  # a block without weights
    sign = SIGNS[options["sign"]]
    shares = spread([sign * value for value in values], sizes_of(targets), sparsity, options["lambda"])
    return Allotment(shares, {"correlation": values})


def block_correlation(name: str, inputs: Sequence[tuple[tuple[Weight, ...], Statistics]]) -> float:
    """Returns the mean over a block's inputs of the mean correlation between languages.

    Args:
        name: the block's, for messages.
        inputs: groups of weights with the statistics of the input they read; one that tokens of fewer than two
            languages reached (an expert) has no say.

    Raises:
        PruneError: if no input of the block was met by two languages.
    """
    found = [statistics.languages.correlation() for _, statistics in inputs]
    known = [value for value in found if value is not None]
    if not known:
        raise PruneError(
            f"allocation 'correlation' compares languages, and the inputs of {name} come from fewer than two: expected "
            "calibration text in several languages; set calibration_languages, or use allocation=owl"
        )
    return sum(known) / len(known)
