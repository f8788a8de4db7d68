"""From a model's raw output to the one line that counts as its answer, and what went wrong with the form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from .normalise import base_language, tokens

_CLOSED_THOUGHT = regex.compile(r"<think>.*?</think>", flags=regex.DOTALL | regex.IGNORECASE)
_OPEN_TAG = regex.compile(r"<think>", flags=regex.IGNORECASE)
_CLOSE_TAG = regex.compile(r"</think>", flags=regex.IGNORECASE)
_OTHER_BREAKS = regex.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = regex.compile(r"[\p{Cf}\s]")

MIN_REPEATS = 3
"""How often a block must stand at the end of the output to count as repetition."""
MIN_REPEATED_TOKENS = 6
"""How many tokens those blocks must make up together: "no, no, no" alone is an answer, not a loop."""


@dataclass(frozen=True)
class Reading:
    """One output as it was understood."""

    answer: str
    """First non-empty line outside of thoughts, stripped; "" if there is none."""
    empty: bool
    """No line with visible text."""
    repeated: bool
    """The output ends in a block of tokens said at least three times over."""
    unclosed_thought: bool
    """A `<think>` block was opened and never closed: nothing after it is an answer."""


def ends_in_repetition(pieces: Sequence[str]) -> bool:
    """Say whether the tokens end in one block repeated back to back.

    The block may have any length; it must stand there `MIN_REPEATS` times and make up `MIN_REPEATED_TOKENS` tokens.
    The last repetition may be cut short, as it is at a token limit.
    """
    n = len(pieces)
    for period in range(1, n // MIN_REPEATS + 1):
        same = 0
        while same < n - period and pieces[n - 1 - same] == pieces[n - 1 - same - period]:
            same += 1
        run = same + period
        if run >= max(MIN_REPEATS * period, MIN_REPEATED_TOKENS):
            return True
    return False


def _visible(output: str) -> tuple[str, bool]:
    """Return what stands outside of thoughts, and whether a thought was opened and never closed."""
    outside = _CLOSED_THOUGHT.sub("", output)
    closes = list(_CLOSE_TAG.finditer(outside))
    if closes:
        outside = outside[closes[-1].end() :]
    opened = _OPEN_TAG.search(outside)
    return (outside[: opened.start()], True) if opened else (outside, False)


def _lines(outside: str) -> list[str]:
    """Split at line feeds alone, where generation stops too; what else breaks lines is a space."""
    lines: list[str] = _OTHER_BREAKS.sub(" ", outside).split("\n")
    return lines


def _shows(line: str) -> bool:
    return bool(_INVISIBLE.sub("", line))


def line_complete(output: str) -> bool:
    """Say whether the answer's line has ended, so that generation may stop: whatever follows is not part of it.

    It is the line that `read_answer` takes, with a newline after it. Only a later `</think>` without its opening tag
    would take the line away; where a template opens the thought in the prompt, name the tag as `think_end_token`, and
    generation is the harness's own.
    """
    return any(map(_shows, _lines(_visible(output)[0])[:-1]))


def read_answer(output: str, language: str) -> Reading:
    """Find the answer in a model's output.

    A closed `<think>` block is taken out first; where the template opened the block and only `</think>` is there, what
    precedes it goes too. Then the first line with visible text is the answer.

    Args:
        output: The whole generated text.
        language: ISO 639-1 code, for the tokens of the repetition check.
    """
    outside, unclosed = _visible(output)
    answer = next((line.strip() for line in _lines(outside) if _shows(line)), "")
    return Reading(
        answer=answer,
        empty=not answer,
        repeated=ends_in_repetition(tokens(output, base_language(language))),
        unclosed_thought=unclosed,
    )
