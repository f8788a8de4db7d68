"""Method "dsnot": dynamic sparse no training (Zhang et al., ICLR 2024), a start mask refined by swaps; no update.

The expected error of output row r is e_r, the sum over its pruned j of W_rj * mean(x_j). In every cycle each row swaps
a pruned weight for a kept one so that e_r moves towards 0, until abs(e_r) is small. What comes back is the pruned
weight that moves e_r most for the variance of its input; what goes is the kept one of the lowest score that moves e_r
the same way. With an n:m pattern it goes from the same run, and a swap that would turn e_r's sign ends the row.

As in the published code the masks of scores start row by row and without any update, SparseGPT's too. Differences: the
variance is that of all tokens (published: the mean over sequences, which depends on how text is cut), means are those
of tokens (published: sums over a sequence, so that its threshold of 0.1 is 0.1 / 2048 here), all matrices are refined
(published default: not the MLPs; "skip:mlp"), and a row that runs out of candidates stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.methods.sparsegpt import DAMPING, DAMPING_LIMIT
from prune_hooks.options import Option
from prune_hooks.registry import Group, Outcome, get_method, register_method
from prune_hooks.scores import magnitude_score, ria_score, sparsegpt_score, wanda_score
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.swaps import swap, swap_within_runs
from prune_hooks.weights import Weight
from prune_hooks.zeros import erase

SCORES = ("wanda", "magnitude", "ria", "sparsegpt")
"""Starts that are a score compared within each row."""
NOTHING = "nothing"


def _further(options: Mapping[str, Any]) -> Needs:
    """Returns what the start mask needs; a PruneError for a method that cannot give one."""
    start = options["start"]
    if start in SCORES:
        return Needs.HESSIAN if start == "sparsegpt" else Needs.NORMS
    method = get_method(start)
    if method.whole_model or method.name in ("none", "dsnot"):
        raise PruneError(
            f"method 'dsnot' cannot start from {start!r}: expected a method that prunes a layer at a time; change "
            f"start in method_options, for instance to {', '.join(SCORES)}"
        )
    return method.needs_with(method.resolve({}))


@register_method(
    "dsnot",
    needs=Needs.MEANS,
    options={
        "start": Option("wanda", about="method whose mask is refined"),
        "cycles": Option(50, least=0, about="swaps a row at most"),
        "threshold": Option(0.1, least=0, about="abs(e_r) at which a row stops"),
        "skip": Option(NOTHING, about="matrices with this in their name keep the start mask"),
    },
    further=_further,
)
def dsnot(group: Group) -> list[Outcome]:
    """Refines the start mask of every matrix, which keeps each row's count and the pattern."""
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    statistics, options = group.statistics, group.options
    mean, mean_square = statistics.mean(), statistics.mean_square()
    variance = (mean_square - mean.square()).clamp_min(torch.finfo(torch.float32).tiny)
    starts, damping = _starts(group)
    outcomes = []
    for weight, (mask, score) in zip(group.weights, starts, strict=True):
        matrix = weight.matrix()
        if options["skip"] == NOTHING or options["skip"] not in weight.name:
            change = matrix.float() * mean
            limits = options["cycles"], options["threshold"]
            if group.kept is None:
                mask = swap(mask, change, variance, wanda_score(matrix, mean_square), *limits)
            else:
                mask = swap_within_runs(mask, change, variance, score, group.kept[1], *limits)
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero()), damping=damping))
    return outcomes


def _starts(group: Group) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], float | None]:
    """Returns each matrix's start mask and the score by which weights go, and the damping if a Hessian was used."""
    assert group.statistics is not None
    start = group.options["start"]
    if start in SCORES:
        scores, damping = _scores(group, group.statistics, start)
        return [(group.choose(score, within="row"), score) for score in scores], damping
    method = get_method(start)
    copies = tuple(_copy(weight) for weight in group.weights)
    outcomes = method.prune(replace(group, weights=copies, options=method.resolve({})))
    mean_square = group.statistics.mean_square()
    masks = [copy.matrix() == 0 for copy in copies]
    scores = [wanda_score(weight.matrix(), mean_square) for weight in group.weights]
    return list(zip(masks, scores, strict=True)), outcomes[0].damping


def _scores(group: Group, statistics: Statistics, start: str) -> tuple[list[torch.Tensor], float | None]:
    matrices = [weight.matrix() for weight in group.weights]
    if start == "magnitude":
        return [magnitude_score(matrix) for matrix in matrices], None
    if start == "sparsegpt":
        factor, dead, damping = statistics.inverse_factor(DAMPING, DAMPING_LIMIT)
        wide = [matrix.float().masked_fill(dead, 0) for matrix in matrices]
        return [sparsegpt_score(matrix, factor.diagonal()) for matrix in wide], damping
    mean_square = statistics.mean_square()
    if start == "ria":
        return [ria_score(matrix, mean_square, 0.5) for matrix in matrices], None
    return [wanda_score(matrix, mean_square) for matrix in matrices], None


def _copy(weight: Weight) -> Weight:
    holder = nn.Module()
    holder.weight = nn.Parameter(weight.matrix().clone(), requires_grad=False)
    return Weight(weight.name, holder, "weight")
