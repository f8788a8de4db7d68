"""How a question becomes a pair of tasks, and when an answer is right.

Import from here or from the modules; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "DATASETS": "catalogue",
    "Built": "rows",
    "Match": "answers",
    "CONDITIONS": "conditions",
    "Condition": "conditions",
    "Question": "questions",
    "Reading": "reading",
    "Source": "sources",
    "build": "docs",
    "build_prompt": "prompts",
    "build_single": "docs",
    "check_data": "sources",
    "describe_source": "sources",
    "describe_sources": "sources",
    "load_questions": "sources",
    "load_squad": "questions",
    "match": "answers",
    "read_answer": "reading",
    "tokens": "normalise",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
