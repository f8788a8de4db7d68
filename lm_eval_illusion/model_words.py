"""`--model_args` as the harness reads them."""

from __future__ import annotations

from typing import Any

from lm_eval_illusion.errors import IllusionError


def key_values(text: str) -> dict[str, Any]:
    """Read "key=value,key=value"; 3000, False and None are no strings.

    Raises:
        IllusionError: For a part without "=".
    """
    wrong = [part for part in text.split(",") if part and "=" not in part]
    if wrong:
        raise IllusionError(f"--model_args: {wrong[0]!r} is no key=value; lists are joined with +, not with commas")
    if not text:
        return {}
    from lm_eval.utils import simple_parse_args_string

    parsed: dict[str, Any] = simple_parse_args_string(text)
    return parsed
