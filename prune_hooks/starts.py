"""The masks that method "dsnot" starts from: a score compared within each row, or what another method would remove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.methods.sparsegpt import DAMPING, DAMPING_LIMIT
from prune_hooks.registry import Group, Method, Plan, get_method
from prune_hooks.scores import magnitude_score, ria_score, sparsegpt_score, wanda_score
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.structured.registry import StructuredMethod
from prune_hooks.weights import Weight

SCORES = ("wanda", "magnitude", "ria", "sparsegpt")
"""Starts that are a score compared within each row."""


def start_method(start: str, spec: PruneSpec | None = None) -> Method | None:
    """Returns the method a start names, None for a score.

    Args:
        start: its name.
        spec: what it is to be bound to, where it rests on more than its options.

    Raises:
        PruneError: no such method, or one that gives no layer a mask of its own.
    """
    if start in SCORES:
        return None
    method = get_method(start)
    mend = f"change start in method_options, for instance to {', '.join(SCORES)}"
    if isinstance(method, StructuredMethod):
        raise PruneError(
            f"method 'dsnot' cannot start from {start!r}: it removes whole structures and leaves no mask to refine; "
            f"expected a method that prunes a layer at a time; {mend}"
        )
    if method.whole_model or method.name in ("none", "dsnot"):
        raise PruneError(
            f"method 'dsnot' cannot start from {start!r}: expected a method that prunes a layer at a time; {mend}"
        )
    return method.bind(spec) if spec is not None and method.bind is not None else method


def start_needs(start: str) -> Needs:
    """Returns what the start mask needs."""
    method = start_method(start)
    if method is None:
        return Needs.HESSIAN if start == "sparsegpt" else Needs.NORMS
    return method.needs_with(method.resolve({}))


def check_start(method: Method | None, plan: Plan) -> None:
    """Lets the start refuse what is out of its reach, at the default options it is used with."""
    if method is not None and method.check is not None:
        with _named(method):
            method.check(plan, method.resolve({}))


def check_start_text(method: Method | None, tokens: Mapping[str, int]) -> None:
    """Lets the start refuse text it can do nothing with."""
    if method is not None and method.check_text is not None:
        with _named(method):
            method.check_text(tokens, method.resolve({}))


@contextmanager
def _named(method: Method) -> Iterator[None]:
    try:
        yield
    except PruneError as error:
        raise PruneError(
            f"method 'dsnot' cannot start from {method.name!r}, which it uses with default options: {error} (options "
            "named here are that method's, used alone); change start in method_options"
        ) from error


def start_masks(group: Group, method: Method | None) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], float | None]:
    """Returns each matrix's start mask and the score by which weights go, and the damping if a Hessian was used.

    Args:
        group: the weights, with the options of "dsnot".
        method: the start, None for a score.
    """
    assert group.statistics is not None
    if method is None:
        scores, damping = _scores(group, group.statistics, group.options["start"])
        return [(group.choose(score, within="row"), score) for score in scores], damping
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
