"""The conditions a question is asked under: the three halves of a pair, and the probes that look for a lost answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """One way to ask a question."""

    name: str
    """As in task names and records: mc, beam4 ..."""
    group: str
    """What its tasks are grouped under: `{data set}_{group}`."""
    kind: str
    """choice (scored options), generation (one greedy answer), several (beams or samples), rank or spans."""
    words: str
    """What is asked, for a reader, in a few words."""
    same_prompt: bool = False
    """The model reads what the pair's own halves read, byte for byte."""
    needs_pruned_hf: bool = False
    """Only the model `pruned_hf` can answer: the harness's own cannot say what is asked for."""
    answers_from: str | None = None
    """The condition whose earlier answers the model is shown; None where it sees none."""
    recovers: bool = False
    """A right answer here brings back what open generation lost."""


_ALL = (
    Condition("mc", "mc", "choice", "four near options, scored", same_prompt=True),
    Condition("mc_far", "mc_far", "choice", "four far options, scored", same_prompt=True),
    Condition("gen", "gen", "generation", "open answer", same_prompt=True),
    Condition("mc_letters", "mc_letters", "choice", "near options listed, the letter scored"),
    Condition("mc_graded", "mc_graded", "choice", "an option from each distance, scored", same_prompt=True),
    Condition("shown", "shown", "generation", "open answer, near options listed", recovers=True),
    Condition(
        "shown_nogold",
        "shown_nogold",
        "generation",
        "open answer, near options listed without the right one",
        recovers=True,
    ),
    Condition("beam4", "beam", "several", "four beams", same_prompt=True, needs_pruned_hf=True, recovers=True),
    Condition("beam8", "beam", "several", "eight beams", same_prompt=True, needs_pruned_hf=True, recovers=True),
    Condition("sample", "sample", "several", "samples drawn", same_prompt=True, needs_pruned_hf=True, recovers=True),
    Condition("oneshot", "oneshot", "generation", "open answer after one more demonstration", recovers=True),
    Condition("closed_mc", "closed", "choice", "four near options, without the passage"),
    Condition("closed_gen", "closed", "generation", "open answer without the passage"),
    Condition("choices_only", "choices_only", "choice", "seven options, without passage and question"),
    Condition("question_only", "question_only", "choice", "seven options, without the passage"),
    Condition("rank", "rank", "rank", "rank of the right answer's tokens", same_prompt=True, needs_pruned_hf=True),
    Condition("rank_spans", "rank_spans", "spans", "right answer among the passage's spans", same_prompt=True),
    Condition("revise1_mc", "revise1", "choice", "four near options after the answer of the choice", answers_from="mc"),
    Condition("revise1_gen", "revise1", "generation", "open answer after the first", answers_from="gen", recovers=True),
    Condition(
        "revise2_mc", "revise2", "choice", "four near options after the second answer", answers_from="revise1_mc"
    ),
    Condition(
        "revise2_gen",
        "revise2",
        "generation",
        "open answer after the second",
        answers_from="revise1_gen",
        recovers=True,
    ),
)

CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}
"""Name -> condition, the three halves first."""

HALVES: tuple[str, ...] = ("mc", "mc_far", "gen")
"""The conditions of a pair itself."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(c.name for c in _ALL if c.group == group) for group in dict.fromkeys(c.group for c in _ALL)
}
"""Group -> its conditions."""

PROBE_GROUPS: tuple[str, ...] = tuple(
    group for group in GROUPS if group not in (*HALVES, "rank_spans", "revise1", "revise2")
)
"""What `{data set}_probes` asks: all but those that take long (rank_spans) or need earlier answers (revise)."""

PROBES = "probes"
"""Name of the group of these groups."""
