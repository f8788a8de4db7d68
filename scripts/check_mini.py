"""Check the shipped question set (lm_eval_illusion/pairs/mini/<language>.json) and say what is wrong, line by line.

    python scripts/check_mini.py [FOLDER]

Prints `file:line: item: problem` for every broken rule and exits with 1, or a line a language and exits with 0.
tests/pairs/test_mini_content.py runs the same rules, and breaks each of them on purpose.
"""

from __future__ import annotations

import itertools
import json
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lm_eval_illusion.pairs.answers import match
from lm_eval_illusion.pairs.normalise import normalise

FOLDER = Path(__file__).resolve().parent.parent / "lm_eval_illusion" / "pairs" / "mini"
LANGUAGES = ("ar", "de", "en", "hi", "ko", "ru", "sw", "zh")
TYPES = ("date", "name", "number", "phrase")
QUESTIONS = 24
OPTIONS = 4
WORDS = (60, 120)
CHARACTERS = {"zh": (100, 200)}
"""Length of a passage in characters, for languages written without spaces between words."""
LENGTH_RATIO = 2.0
"""The longest option has at most so many times the characters of the shortest."""
PLACES = (4, 8)
"""How many of the 24 golds may stand at each of the four places (first to fourth candidate of the passage)."""
EXTREMES = 10
"""At most so many of the 24 golds are the longest, or the shortest, of their four options (a tie of k counts 1/k)."""


@dataclass(frozen=True)
class Item:
    """One question with its passage, as it stands in the file."""

    id: str
    """Passage and question, e.g. p07/q07: the same in every language."""
    type: str
    title: str
    context: str
    question: str
    gold: str
    start: int
    """Where the gold starts in the context, in characters."""
    distractors: tuple[str, ...]
    line: int
    """Line of the passage in its file, from 1."""

    @property
    def options(self) -> tuple[str, ...]:
        """The gold and its distractors."""
        return (self.gold, *self.distractors)

    @property
    def place(self) -> int:
        """Place of the gold among the options in the order of the passage, from 1."""
        return 1 + sum(self.context.find(d) < self.start for d in self.distractors)


@dataclass(frozen=True)
class Problem:
    """A broken rule and where it is broken."""

    language: str
    line: int
    item: str
    text: str

    def __str__(self) -> str:
        """Return the message as editors understand it."""
        return f"{self.language}.json:{self.line}: {self.item}: {self.text}"


def read_items(path: Path) -> list[Item]:
    """Read a file of the set; a missing key is a KeyError (the set is ours, not a user's)."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    head = {key: document[key] for key in ("version", "language", "license")}
    expected = {"version": 1, "language": path.stem, "license": "CC0-1.0"}
    if head != expected:
        raise ValueError(f"{path.name}:1: head is {head}, expected {expected}")
    lines = text.splitlines()
    return [
        Item(
            id=f"{paragraph['id']}/{qa['id']}",
            type=qa["type"],
            title=article["title"],
            context=paragraph["context"],
            question=qa["question"],
            gold=answer["text"],
            start=answer["answer_start"],
            distractors=tuple(qa["distractors"]),
            line=1 + next(n for n, line in enumerate(lines) if f'"id": "{paragraph["id"]}"' in line),
        )
        for article in document["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
        for answer in qa["answers"]
    ]


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def on_word_edges(context: str, start: int, end: int) -> bool:
    """Say whether neither side of a span cuts a word (letters, marks and digits make words)."""
    return not any(_in_word(c) for c in context[max(start - 1, 0) : start] + context[end : end + 1])


def _clash(a: str, b: str, language: str) -> bool:
    a, b = normalise(a, language), normalise(b, language)
    return a in b or b in a


def _scripts(text: str) -> set[str]:
    return {unicodedata.name(c).split()[0] for c in text if unicodedata.category(c)[0] == "L"}


def item_problems(item: Item, language: str) -> Iterator[str]:
    """Check one item by itself: lengths, spans, options."""
    low, high = CHARACTERS.get(language, WORDS)
    length = len(item.context) if language in CHARACTERS else len(item.context.split())
    if not low <= length <= high:
        yield f"passage of {length}, expected {low} to {high}"
    if item.type not in TYPES:
        yield f"type {item.type!r}, expected one of {', '.join(TYPES)}"
    for name, text in (("passage", item.context), ("question", item.question), ("title", item.title)):
        if text != " ".join(text.split()) or text != unicodedata.normalize("NFC", text):
            yield f"{name} has stray white space or is not NFC"
    if len(set(item.options)) != OPTIONS or len(item.options) != OPTIONS:
        yield f"options {item.options}, expected {OPTIONS} different ones"
    if item.context[item.start : item.start + len(item.gold)] != item.gold:
        yield f"gold {item.gold!r} does not stand at character {item.start} of the passage"
    for option in item.options:
        found, start = item.context.count(option), item.context.find(option)
        if found != 1:
            yield f"option {option!r} stands in the passage {found} times, expected once"
        elif language not in CHARACTERS and not on_word_edges(item.context, start, start + len(option)):
            yield f"option {option!r} cuts a word of the passage"
        if normalise(option, language) in normalise(f"{item.title} {item.question}", language):
            yield f"option {option!r} stands in the title or the question"
        if any(c.isdecimal() for c in option) != (item.type in {"date", "number"}):
            yield f"option {option!r} is no {item.type}: digits are for dates and numbers"
    for distractor in item.distractors:
        if match(distractor, [item.gold], language).standard:
            yield f"distractor {distractor!r} would count as right beside the gold {item.gold!r}"
    for a, b in itertools.combinations(item.options, 2):
        if _clash(a, b, language):
            yield f"option {a!r} contains or equals {b!r} after normalisation"
        if _scripts(a) != _scripts(b):
            yield f"options {a!r} and {b!r} are written in different scripts"
    lengths = [len(option) for option in item.options]
    if max(lengths) > LENGTH_RATIO * min(lengths):
        yield f"options of {min(lengths)} to {max(lengths)} characters, expected at most {LENGTH_RATIO:g} times"


def extremes(items: Sequence[Item]) -> tuple[float, float]:
    """Return how many golds are the longest and how many the shortest option; a tie of k counts 1/k."""
    totals = [0.0, 0.0]
    for item in items:
        lengths = [len(option) for option in item.options]
        for which, extreme in enumerate((max(lengths), min(lengths))):
            if lengths[0] == extreme:
                totals[which] += 1 / lengths.count(extreme)
    return totals[0], totals[1]


def set_problems(items: Sequence[Item], language: str) -> Iterator[tuple[Item, str]]:
    """Check the questions of one language together: counts, balance, no duplicates, golds usable as far options."""
    first = items[0]
    if len(items) != QUESTIONS:
        yield first, f"{len(items)} questions, expected {QUESTIONS}"
    types = Counter(item.type for item in items)
    if any(types[t] != QUESTIONS // len(TYPES) for t in TYPES):
        yield first, f"types {dict(types)}, expected {QUESTIONS // len(TYPES)} of each"
    places = Counter(item.place for item in items)
    if any(not PLACES[0] <= places[p] <= PLACES[1] for p in range(1, OPTIONS + 1)):
        yield first, f"golds at places {dict(sorted(places.items()))}, expected {PLACES[0]} to {PLACES[1]} at each"
    for name, count in zip(("longest", "shortest"), extremes(items), strict=True):
        if count > EXTREMES:
            yield first, f"{count:.1f} golds are the {name} option, expected at most {EXTREMES}"
    for a, b in itertools.combinations(items, 2):
        for name in ("id", "title", "context", "question", "gold"):
            if getattr(a, name) == getattr(b, name):
                yield b, f"same {name} as {a.id}"
        if a.type == b.type and a.gold != b.gold and _clash(a.gold, b.gold, language):
            yield b, f"gold {b.gold!r} contains or equals the gold {a.gold!r} of {a.id} after normalisation"


def parallel_problems(sets: Mapping[str, Sequence[Item]]) -> Iterator[tuple[str, Item, str]]:
    """Check that every language asks the same: ids, order, types, the place of the gold."""
    reference = min(sets)
    for language, items in sets.items():
        if [item.id for item in items] != [item.id for item in sets[reference]]:
            yield language, items[0], f"ids or their order differ from {reference}.json"
            continue
        for item, same in zip(items, sets[reference], strict=True):
            for name in ("type", "place"):
                if getattr(item, name) != getattr(same, name):
                    yield language, item, f"{name} {getattr(item, name)}, but {getattr(same, name)} in {reference}.json"


def check(sets: Mapping[str, Sequence[Item]]) -> list[Problem]:
    """Return every broken rule of the whole set, in the order of languages and lines."""
    found = [
        Problem(language, item.line, item.id, text)
        for language, items in sets.items()
        for item, text in (
            *((item, text) for item in items for text in item_problems(item, language)),
            *set_problems(items, language),
        )
    ]
    found += [Problem(language, item.line, item.id, text) for language, item, text in parallel_problems(sets)]
    if set(sets) != set(LANGUAGES):
        found.append(Problem(min(sets), 1, "languages", f"{sorted(sets)}, expected {sorted(LANGUAGES)}"))
    return sorted(found, key=lambda p: (p.language, p.line, p.text))


def main(argv: Sequence[str]) -> int:
    """Check a folder and print what was found."""
    folder = Path(argv[0]) if argv else FOLDER
    sets = {path.stem: read_items(path) for path in sorted(folder.glob("*.json"))}
    if not sets:
        print(f"no *.json in {folder}: expected one file a language", file=sys.stderr)
        return 1
    problems = check(sets)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        for language, items in sets.items():
            longest, shortest = extremes(items)
            places = Counter(item.place for item in items)
            print(
                f"{language}: {len(items)} questions, gold at place 1-4 {[places[p] for p in range(1, 5)]}, "
                f"longest {longest:.1f}, shortest {shortest:.1f}"
            )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
