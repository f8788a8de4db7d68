"""Multiple-choice requests of a plain task, as both sides of the scoring benchmark get them."""

from __future__ import annotations

from typing import Any

TOKENS = (150, 400)
"""Least and most tokens of a prompt."""
OPTION_TOKENS = {"options": 4, "long-options": 8}
"""What grows -> the tokens that each of its options has, exactly."""
WORDS = """amber apple arrow bell bird boat book bread brick bridge cable candle castle cloud coin corn crown desk door
drum eagle fence field flame forest garden glass gold grass hammer harbor house iron island lake lamp leaf lemon market
milk"""
"""What options of a given length are made of; each begins with another one."""
SOURCES = {"tydiqa": ("en", "fi", "ru", "ar", "sw"), "xquad": ("en", "de", "zh", "hi")}
Asked = list[tuple[str, list[str]]]
"""Prompts with their options."""


def questions(tokenizer: Any, data: str | None, count: int) -> Asked:
    """Return prompts of 150 to 400 tokens with four near options each."""
    from lm_eval_illusion.pairs.docs import build

    sources = SOURCES if data else {"illusion_mini": ("en", "de", "ru", "zh")}
    languages = [(name, language) for name, listed in sources.items() for language in listed]
    found: Asked = []
    for name, language in languages:
        of_this = 0
        for row in build(name, language, folder=data, seed=0, count=None).rows:
            prompt = row["prompt"] if data else _lengthened(row, tokenizer)
            if of_this == -(-count // len(languages)):
                break
            if TOKENS[0] <= len(tokenizer(prompt)["input_ids"]) <= TOKENS[1]:
                found.append((prompt, list(row["choices_near"])))
                of_this += 1
    return found[:count]


def _lengthened(row: dict[str, Any], tokenizer: Any) -> str:
    from lm_eval_illusion.pairs.prompts import build_prompt

    passage = row["passage"]
    times = max(1, 250 // len(tokenizer(passage)["input_ids"]))
    return build_prompt(" ".join([passage] * times), row["question"], row["language"])


def instances(asked: Asked) -> list[Any]:
    from lm_eval.api.instance import Instance

    made = []
    for number, (prompt, options) in enumerate(asked):
        for k, option in enumerate(options):
            meta = ("benchmark", number, 1)
            made.append(Instance("loglikelihood", {}, (prompt, f" {option}"), k, metadata=meta))
    return made


def token_count(tokenizer: Any, prompt: str, option: str) -> int:
    """Return the tokens of an option after its prompt, as the harness cuts them."""
    return len(tokenizer(f"{prompt} {option}")["input_ids"]) - len(tokenizer(prompt)["input_ids"])


def of_length(tokenizer: Any, prompt: str, count: int, tokens: int) -> list[str]:
    """Return options that have exactly so many tokens after a prompt, each from another first word on.

    Raises:
        SystemExit: If this tokenizer gives fewer than asked.
    """
    found: list[str] = []
    nouns = WORDS.split()
    for start in range(len(nouns)):
        words = [nouns[(start + step) % len(nouns)] for step in range(tokens)]
        whole = " ".join(words)
        parts = [" ".join(words[:end]) for end in range(tokens, 0, -1)]
        parts += [whole[:end] for end in range(len(whole), 0, -1) if whole[end - 1] != " "]
        fitting = (part for part in parts if part not in found and token_count(tokenizer, prompt, part) == tokens)
        found += [option for option in [next(fitting, None)] if option is not None]
        if len(found) == count:
            return found
    raise SystemExit(
        f"this tokenizer makes {len(found)} options of exactly {tokens} tokens from the words of {__file__}: expected "
        f"{count}; add words there"
    )


def grown(tokenizer: Any, data: str | None, kind: str, size: int) -> Asked:
    """Return requests that grow in one way: options (short or long, of OPTION_TOKENS), passage tokens, or items."""
    base = questions(tokenizer, data, size if kind == "items" else 8)
    if kind in OPTION_TOKENS:
        return [(prompt, of_length(tokenizer, prompt, size, OPTION_TOKENS[kind])) for prompt, _ in base]
    if kind == "passage":
        cut = []
        for prompt, options in base:
            ids = (tokenizer(prompt)["input_ids"] * (size // 100 + 1))[:size]
            cut.append((tokenizer.decode(ids, skip_special_tokens=True), options))
        return cut
    return [
        base[n % len(base)] if n < len(base) else (f"{n} {base[n % len(base)][0]}", base[n % len(base)][1])
        for n in range(size)
    ]
