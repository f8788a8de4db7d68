"""Method "dsnot": dynamic sparse no training (Zhang et al., ICLR 2024), a start mask refined by swaps; no update.

The expected error of output row r is e_r, the sum over its pruned j of W_rj * mean(x_j). In every cycle each row swaps
a pruned weight for a kept one so that e_r moves towards 0, until abs(e_r) is small. What comes back is the pruned
weight that moves e_r most for the variance of its input; what goes is the kept one of the lowest score that moves e_r
the same way. With an n:m pattern it goes from the same run, and a swap that would turn e_r's sign ends the row.

As in the published code the masks of scores start row by row and without any update, SparseGPT's too. Differences: the
variance is that of all tokens (published: the mean over sequences, which depends on how text is cut), means are those
of tokens (published: sums over a sequence, so that its threshold of 0.1 is 0.1 / 2048 here), all matrices are refined
(published default: not the MLPs; "skip:mlp"), and a row that runs out of candidates stops.

A start is used with its default options, and refuses what it refuses alone. "start:mask" refines a saved mask, the
spec's `mask`, row by row: an n:m pattern that it has is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from prune_hooks.options import Option
from prune_hooks.registry import Group, Method, Outcome, Plan, register_method
from prune_hooks.scores import wanda_score
from prune_hooks.spec import PruneSpec
from prune_hooks.starts import check_start, check_start_text, start_masks, start_method, start_needs
from prune_hooks.statistics import Needs
from prune_hooks.swaps import swap, swap_within_runs
from prune_hooks.zeros import erase

NOTHING = "nothing"


def _further(options: Mapping[str, Any]) -> Needs:
    return start_needs(options["start"])


def _bound(spec: PruneSpec) -> Method:
    """Returns the method with its start bound to the spec: a saved mask to the spec's file."""
    start = start_method(dsnot.resolve(spec.method_options)["start"], spec)

    def check(plan: Plan, options: Mapping[str, Any]) -> None:
        check_start(start, plan)

    def check_text(tokens: Mapping[str, int], options: Mapping[str, Any]) -> None:
        check_start_text(start, tokens)

    return replace(dsnot, prune=partial(refine, start=start), check=check, check_text=check_text, bind=None)


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
    bind=_bound,
)
def dsnot(group: Group) -> list[Outcome]:
    """Refines the start mask of every matrix, which keeps each row's count and the pattern."""
    return refine(group, start_method(group.options["start"]))


def refine(group: Group, start: Method | None) -> list[Outcome]:
    """Refines the start masks of a group; see `dsnot`.

    Args:
        group: the weights.
        start: the method whose masks they are, None for a score.
    """
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    statistics, options = group.statistics, group.options
    mean, mean_square = statistics.mean(), statistics.mean_square()
    variance = (mean_square - mean.square()).clamp_min(torch.finfo(torch.float32).tiny)
    starts, damping = start_masks(group, start)
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
