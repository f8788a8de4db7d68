"""Self-correction: the model is shown its own answer and answers again, in both formats."""

from __future__ import annotations

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, ChoiceHalf, GenerationHalf
from lm_eval_illusion.report.probe_measures import RevisionFigures
from lm_eval_illusion.report.stats import mcnemar

__all__ = ["revision_figures"]


def revision_figures(asked: Asked) -> list[RevisionFigures]:
    """Every round and format that was run: mended, spoilt, kept."""
    figures = []
    for number in (1, 2):
        for kind in ("gen", "mc"):
            name = f"revise{number}_{kind}"
            source = CONDITIONS[name].answers_from
            assert source is not None
            before, after = _rights(asked, source), _rights(asked, name)
            items = before.keys() & after.keys()
            if not items:
                continue
            mended = sum(after[i] and not before[i] for i in items)
            spoilt = sum(before[i] and not after[i] for i in items)
            figures.append(
                RevisionFigures(
                    round=number,
                    format=kind,
                    items=len(items),
                    right_before=sum(before[i] for i in items),
                    mended=mended,
                    spoilt=spoilt,
                    kept=len(_kept(asked, name) & items),
                    p=mcnemar(spoilt, mended) if asked.asked_of_all(name) else None,
                )
            )
    return figures


def _rights(asked: Asked, name: str) -> dict[int, bool]:
    if CONDITIONS[name].kind == "choice":
        return {i: bool(half.right[NORMALISERS[0]]) for i, half in asked.having(name, ChoiceHalf).items()}
    return {i: bool(half.right[MATCHERS[0]]) for i, half in asked.having(name, GenerationHalf).items()}


def _kept(asked: Asked, name: str) -> set[int]:
    """Items that got the same answer again, case and spaces aside."""
    if CONDITIONS[name].kind == "choice":
        chosen = asked.having(name, ChoiceHalf).items()
        return {i for i, h in chosen if h.picked is not None and _same(h.choices[h.picked], h.earlier)}
    return {i for i, h in asked.having(name, GenerationHalf).items() if _same(h.answer, h.earlier)}


def _same(answer: str, earlier: str | None) -> bool:
    return earlier is not None and " ".join(answer.split()).casefold() == " ".join(earlier.split()).casefold()
