"""Distractors that a data set's author wrote: aligned by position, held to the same rules as found ones."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import IllusionError
from .aligned import Aligned, Item
from .options import NUMBER_OF_OPTIONS
from .parallel import Parallel
from .rules import ALIGNED, Answer, admissible, entangled


@dataclass(frozen=True)
class Authored:
    """A parallel data set whose questions carry their near distractors; far ones are found as in any other."""

    found: Parallel
    """Gives the far distractors."""

    def near(self, item: Item) -> Aligned:
        """Return the author's three distractors in every language.

        Raises:
            IllusionError: a language lacks one, or one breaks a rule; the text names item, language and option.
        """
        columns: dict[str, list[Answer]] = {}
        for language, question in item.questions.items():
            options = [Answer(text, language) for text in question.distractors]
            problems = problems_of(options, item.golds[language])
            if problems:
                raise IllusionError(f"{question.item_id}: {problems[0]}; mend the question file")
            columns[language] = options
        texts = [{code: column[i] for code, column in columns.items()} for i in range(NUMBER_OF_OPTIONS - 1)]
        dataset = item.questions[item.reference].dataset
        return Aligned([(t, "author") for t in texts], (dataset, item.source_id, "near", self.found.seed))

    def far(self, item: Item) -> Aligned | None:
        """Choose golds of other passages."""
        return self.found.far(item)


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
