"""The scripts that the data sets' own leaderboards use, for comparison only: SQuAD v1.1 and MLQA.

SQuAD v1.1 (evaluate-v1.1.py; used for XQuAD and TyDi QA GoldP): lower case, ASCII punctuation deleted, English articles
dropped, whitespace tokens. MLQA (mlqa_evaluation_v1.py): Unicode punctuation deleted, articles of the language dropped,
Chinese cut into characters. Neither folds digits, widths or accents, and both fuse "1990-1995": see `answers` for the
matchers that this project judges by.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

_ASCII_PUNCTUATION = frozenset(string.punctuation)
_MLQA_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": r"\sال^|ال",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
}


def _is_punctuation(char: str) -> bool:
    return char in _ASCII_PUNCTUATION or unicodedata.category(char).startswith("P")


def squad_tokens(text: str) -> list[str]:
    """Return the tokens of SQuAD v1.1's `normalize_answer`."""
    kept = "".join(c for c in text.lower() if c not in _ASCII_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def _mixed_segmentation(text: str) -> list[str]:
    pieces: list[str] = []
    word = ""
    for char in text:
        if "\u4e00" <= char <= "\u9fa5" or _is_punctuation(char):
            pieces += word.split()
            word = ""
            pieces.append(char)
        else:
            word += char
    return pieces + word.split()


def mlqa_tokens(text: str, language: str) -> list[str]:
    """Return the tokens of MLQA's `normalize_answer` for a language; one that MLQA does not have gets no articles."""
    kept = "".join(c for c in text.lower() if not _is_punctuation(c))
    article = _MLQA_ARTICLES.get(language)
    kept = re.sub(article, " ", kept) if article else kept
    return [p for p in _mixed_segmentation(kept) if p.strip()] if language == "zh" else kept.split()


def _f1(said: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(said) & Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


def _score(answer: str, golds: Sequence[str], cut: Callable[[str], list[str]]) -> tuple[float, float]:
    said = cut(answer)
    exact = max(float(said == cut(gold)) for gold in golds)
    return exact, max(_f1(said, cut(gold)) for gold in golds)


def squad_scores(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """Return (exact match, F1), each 0 to 1, maximum over at least one gold, as SQuAD v1.1 scores one answer."""
    return _score(answer, golds, squad_tokens)


def mlqa_scores(answer: str, golds: Sequence[str], language: str) -> tuple[float, float]:
    """Return (exact match, F1), each 0 to 1, maximum over at least one gold, as MLQA scores one answer."""
    return _score(answer, golds, lambda text: mlqa_tokens(text, language))
