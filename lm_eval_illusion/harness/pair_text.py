"""What `lm-eval-illusion pair` says: how much of a file can be asked, why the rest cannot, and what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lm_eval_illusion.harness.pair import Written
from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.pairs.own import BadRowsError

SHOWN_ROWS = 20
"""So many bad rows are listed; the total is always told."""


def bad_rows(error: BadRowsError) -> Iterator[str]:
    """Yield a line for each bad row, the first `SHOWN_ROWS` of them."""
    yield from error.rows[:SHOWN_ROWS]
    if len(error.rows) > SHOWN_ROWS:
        yield f"... and {len(error.rows) - SHOWN_ROWS} more"


def summary(written: Written) -> Iterator[str]:
    """Yield what was made, language by language, and the commands to run next."""
    yield f"{written.name}: {sum(written.questions.values())} questions read, tasks written to {written.folder}"
    for language, total in written.questions.items():
        counts = written.usable[language]
        most = max(counts.values())
        why = "; ".join(f"{count} {reason}" for reason, count in sorted(written.left_out[language].items()))
        yield f"  {language}: {most} of {total} can be asked" + (f" (left out: {why})" if why else "")
        yield from (f"    {line}" for line in _fewer(counts, most))
    missing = [name for name in CONDITIONS if any(counts.get(name) == 0 for counts in written.usable.values())]
    if missing:
        yield f"  not written: {', '.join(missing)}, for which a language has too few passages or questions"
    if not written.shots:
        yield "  some questions find no demonstration about another passage: ask with --num_fewshot 0, or add passages"
    yield "Run next:"
    yield from (f"  {command}" for command in written.commands)


def _fewer(counts: Mapping[str, int], most: int) -> Iterator[str]:
    fewer = {name: count for name, count in counts.items() if count < most}
    if fewer:
        yield "fewer under " + ", ".join(f"{name} ({count})" for name, count in fewer.items())
