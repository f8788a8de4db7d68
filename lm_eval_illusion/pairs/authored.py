"""Distractors that a data set's author wrote: aligned by position, held to the same rules as found ones."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import IllusionError
from .aligned import Aligned, Item, Texts
from .options import NUMBER_OF_OPTIONS
from .parallel import Parallel, candidate_of
from .rules import ALIGNED, Answer, admissible, entangled


@dataclass(frozen=True)
class Authored:
    """A parallel data set whose questions carry their near distractors; far ones are found as in any other."""

    found: Parallel
    """Gives the far distractors."""

    def _texts(self, item: Item) -> list[dict[str, Answer]]:
        """Return the author's three distractors, each as language -> text."""
        columns: dict[str, list[Answer]] = {}
        for language, question in item.questions.items():
            options = [Answer(text, language) for text in question.distractors]
            problems = problems_of(options, item.golds[language])
            if problems:
                raise IllusionError(f"{question.item_id}: {problems[0]}; mend the question file")
            columns[language] = options
        return [{code: column[i] for code, column in columns.items()} for i in range(NUMBER_OF_OPTIONS - 1)]

    def near(self, item: Item) -> Aligned:
        """Return the author's three distractors in every language.

        Raises:
            IllusionError: a language lacks one, or one breaks a rule; the text names item, language and option.
        """
        dataset = item.questions[item.reference].dataset
        return Aligned([(t, "author") for t in self._texts(item)], (dataset, item.source_id, "near", self.found.seed))

    def far(self, item: Item) -> Aligned | None:
        """Choose golds of other passages."""
        return self.found.far(item)

    def graded(self, item: Item) -> list[tuple[str, Texts, str]]:
        """Choose an option at each distance: one of the author's from the passage, the others as in any set."""
        written = [
            (texts, candidate_of(texts, item, f"author {number}", 0.0))
            for number, texts in enumerate(self._texts(item))
        ]
        return self.found.graded(item, written)


def problems_of(options: list[Answer], golds: tuple[Answer, ...]) -> list[str]:
    """Say which rules authored distractors break, one sentence each; empty if none."""
    found = []
    if len(options) != NUMBER_OF_OPTIONS - 1:
        return [f"three distractors expected, found {len(options)}"]
    for i, option in enumerate(options):
        if not admissible(option, golds, length=ALIGNED):
            found.append(
                f"distractor {option.text!r} breaks a rule beside {golds[0].text!r} (kind, script, length, overlap)"
            )
        if any(entangled(option, other) for other in options[:i]):
            found.append(f"distractor {option.text!r} repeats or contains another one")
    return found
