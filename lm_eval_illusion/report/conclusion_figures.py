"""What is concluded: statements with their answers, and a paragraph for each comparison."""

from __future__ import annotations

from typing import Literal

from lm_eval_illusion.report.measures import Plain

__all__ = ["Answer", "Conclusion", "Conclusions", "Statement"]

Answer = Literal["yes", "no", "undecided"]


class Statement(Plain):
    """One statement of the paper, judged by one set of figures."""

    key: str
    """recognition_near, recognition_far, slide_near, slide_far, beam, sample, oneshot; of a sweep growth_near,
    growth_far, wanda_near, wanda_far."""
    claim: str
    answer: Answer
    numbers: str
    """What the answer rests on; empty where nothing was measured."""
    reason: str
    """Why it is undecided, or why no is more than a lack of proof; empty for yes."""


class Conclusion(Plain):
    """One comparison."""

    pruned: str
    """Label of the run."""
    statements: list[Statement]
    paragraph: list[str]
    """Its sentences."""


class Conclusions(Plain):
    """All that the probes allow to conclude."""

    comparisons: list[Conclusion]
    """Those whose pruned run has probes; may be none."""
    sweep: list[Statement]
    """Across sparsities and methods; empty without a sweep."""
