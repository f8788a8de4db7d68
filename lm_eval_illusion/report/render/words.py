"""Words of the report's tables for a reader who has nothing but the report."""

from __future__ import annotations

__all__ = ["WORDS"]

WORDS: dict[str, str] = {
    "near, far": (
        "wrong options from the same passage, from other passages. With the passage in the prompt the gold alone can "
        "be copied from among far options, so that far multiple choice may stay high in a model that answers nothing"
    ),
    "gap": "mean R - mean G: P(recognition-only) less P(generation-only)",
    "excess": "gap of the pruned model less that of the dense one, on the same items",
    "corrected": "with guessing taken off: (x - 1/k)/(1 - 1/k), k options; of a recovery (hit - control)/(1 - control)."
    " Below 0: less than chance would bring",
    "induced": "share of the items that the dense model recognised and answered and the pruned one only recognises, "
    "less 1/k",
    "recognised failures": "P(R | not G): recognised among the items whose open answer is wrong",
    "equivalence": "whether the 90 % interval of the excess lies within the margin (two one-sided tests at 5 %)",
    "lost, won": "items right under the dense model and wrong under the pruned one, and the other way round",
    "detectable": "the difference that so many items would show with 80 % power",
    "joined, excluded, unmatched": "valid in both runs; cut or not finite in either (never right or wrong); "
    "in one run only",
    "gold inside": "the answer counts as wrong (too long, or the gold is not by itself), yet the gold stands in it",
    "unclosed thought": "the answer ended within its thinking",
    "control": "how often the same probe hits the item's own wrong options: what would come back by chance",
    "leaks": "places by which the gold could be told without reading: longest, shortest, first in the passage",
}
"""Word -> meaning, in the order shown."""
