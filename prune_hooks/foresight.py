"""What is wrong with a spec is found before a model is loaded."""

from __future__ import annotations

from prune_hooks.allotting import require_possible
from prune_hooks.calibration.sources import check_source
from prune_hooks.registry import get_allocation, get_method
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs
from prune_hooks.structured.registry import StructuredMethod


def check_spec(spec: PruneSpec) -> None:
    """Finds what is wrong with a spec before any model is there.

    Raises:
        PruneError: for an unknown method, allocation or option, a damaged mask file, a pattern that goes with no such
            allocation, or calibration text that is needed and not to be had.
    """
    method, rule = get_method(spec.method), get_allocation(spec.allocation)
    method = method.bind(spec) if method.bind is not None else method
    needs = method.needs_with(method.resolve(spec.method_options)) | rule.needs
    rule.resolve(spec.allocation_options)
    if spec.method != "none" and spec.sparsity:
        require_possible(spec)
        if isinstance(method, StructuredMethod):
            method.require_plain(spec)
        if needs is not Needs.NOTHING and isinstance(spec.calibration, str):
            check_source(spec.calibration, spec.calibration_languages)
