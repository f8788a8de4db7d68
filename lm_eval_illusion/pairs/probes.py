"""The rows of the probes: the base row of an item, and what the condition adds or asks instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import IllusionError
from .conditions import CONDITIONS, HALVES, Condition
from .demonstrations import before, one_more
from .display import DISPLAYS, PAIRED, text_of
from .docs import LanguageSet
from .fed import Fed
from .prompts import LETTERS
from .rows import Row
from .task_options import TaskOptions
from .windows import same_length_spans

Extra = Callable[[Row, "Asking"], Row]


@dataclass(frozen=True)
class Asking:
    """What the rows of one condition are made with."""

    condition: Condition
    """What is asked."""
    questions: LanguageSet
    """Gives options by distance."""
    pool: Sequence[Row]
    """Every base row of the language, sampled or not."""
    options: TaskOptions
    """What the user set."""
    fed: Fed | None
    """Earlier answers."""

    def text(self, row: Row, *, options: Sequence[str] = (), earlier: str | None = None) -> Row:
        """Return the prompt of the condition, as a column."""
        display = DISPLAYS.get(self.condition.name, PAIRED)
        return {
            "prompt": text_of(
                display, row["language"], row["passage"], row["question"], options=options, earlier=earlier
            )
        }


def _letters(row: Row, asking: Asking) -> Row:
    return {
        **asking.text(row, options=row["choices_near"]),
        "letters": list(LETTERS),
        "gold_letter": row["gold_near"],
    }


def _graded(row: Row, asking: Asking) -> Row:
    found = asking.questions.graded(row["source_id"])
    return {
        "choices_graded": list(found.choices),
        "gold_graded": found.gold,
        "sources_graded": list(found.sources),
        "distances_graded": list(found.distances),
    }


def _shown(row: Row, asking: Asking) -> Row:
    return asking.text(row, options=row["choices_near"])


def _shown_nogold(row: Row, asking: Asking) -> Row:
    return asking.text(row, options=[t for i, t in enumerate(row["choices_near"]) if i != row["gold_near"]])


def _beam(row: Row, asking: Asking) -> Row:
    return {"beams": int(asking.condition.name.removeprefix("beam"))}


def _sample(row: Row, asking: Asking) -> Row:
    options = asking.options
    return {
        "samples": options.samples,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "sample_seed": options.sample_seed,
    }


def _oneshot(row: Row, asking: Asking) -> Row:
    shot = one_more(row, asking.pool, asking.options.seed)
    return {
        "prompt": before(shot, row["prompt"], row["language"]),
        "demonstration_item": shot["item_id"],
        "demonstration_answers": [shot["gold_text"]],
    }


def _closed(row: Row, asking: Asking) -> Row:
    return asking.text(row)


def _both(row: Row, asking: Asking) -> Row:
    far = [i for i in range(len(row["choices_far"])) if i != row["gold_far"]]
    return {
        **asking.text(row),
        "choices_both": [*row["choices_near"], *(row["choices_far"][i] for i in far)],
        "gold_both": row["gold_near"],
        "sources_both": [*row["sources_near"], *(row["sources_far"][i] for i in far)],
    }


def _nothing(row: Row, asking: Asking) -> Row:
    return {}


def _spans(row: Row, asking: Asking) -> Row:
    golds = [row["gold_text"], *row["answers"]]
    return {
        "choices_spans": [row["gold_text"], *same_length_spans(row["passage"], golds, row["language"])],
        "gold_spans": 0,
    }


def _revise(row: Row, asking: Asking) -> Row:
    earlier = earlier_answer(row, asking)
    return {**asking.text(row, earlier=earlier), "earlier": earlier}


EXTRAS: dict[str, Extra] = {
    "mc_letters": _letters,
    "mc_graded": _graded,
    "shown": _shown,
    "shown_nogold": _shown_nogold,
    "beam4": _beam,
    "beam8": _beam,
    "sample": _sample,
    "oneshot": _oneshot,
    "closed_mc": _closed,
    "closed_gen": _closed,
    "choices_only": _both,
    "question_only": _both,
    "rank": _nothing,
    "rank_spans": _spans,
    "revise1_mc": _revise,
    "revise1_gen": _revise,
    "revise2_mc": _revise,
    "revise2_gen": _revise,
}
"""Probe -> the columns that it adds to the base row, or puts in their place."""


def probe_named(name: str) -> Condition:
    """Return a probe; an unknown name is an error that lists the known ones."""
    if name not in EXTRAS:
        known = ", ".join(condition for condition in CONDITIONS if condition not in HALVES)
        raise IllusionError(f"unknown pairs_condition {name!r} in a task file; known: {known}")
    return CONDITIONS[name]


def earlier_answer(row: Row, asking: Asking) -> str | None:
    """Return what the model answered before under the condition that this one continues, or None."""
    source = asking.condition.answers_from
    return asking.fed.answer(row["item_id"], source) if asking.fed and source else None


def probe_row(row: Row, asking: Asking) -> Row:
    """Return the row of a probe: the base row with the condition and what it adds."""
    return {**row, "condition": asking.condition.name, **EXTRAS[asking.condition.name](row, asking)}
