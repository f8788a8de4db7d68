"""Short word lists (`words.json`): articles, function words, number words, written-on particles.

The lists are casefolded and only as long as needed. A language without function words here gets those words that
occur in many passages of the data set (see `vocabulary.Vocabulary`).
"""

from __future__ import annotations

import json
from importlib.resources import files

_LISTS: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("words.json").read_text(encoding="utf-8"))


def _sets(name: str) -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in _LISTS[name].items()}


ARTICLES = _sets("articles")
"""Articles, casefolded (Greek final sigma is σ then); a language without articles has no entry."""
FUNCTION_WORDS = _sets("function_words")
"""Words that make no sense at the edge of an answer."""
NUMBER_WORDS = _sets("number_words")
"""Words that make a text without digits numeric."""
PARTICLES = {language: tuple(words.split()) for language, words in _LISTS["particles"].items()}
"""Endings written onto a word that golds leave off, in the order in which they are tried."""
