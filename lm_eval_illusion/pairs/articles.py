"""Which questions of XQuAD share an article: the hub's rows, unlike the original files, do not say it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def xquad_articles() -> dict[str, str]:
    """Return XQuAD's id -> name of its article ("article 0" to "article 47", in the order of the original files)."""
    table = json.loads(files(__package__).joinpath("xquad_articles.json").read_text(encoding="utf-8"))
    return {source_id: f"article {number}" for number, ids in enumerate(table) for source_id in ids}


def article_of(dataset: str, source_id: str, title: str, cluster: str) -> str:
    """Name the article of a question, the same whichever source it came from.

    Args:
        dataset: Name of the data set; XQuAD's articles are read from the shipped table.
        source_id: Id of the question.
        title: What the source says, "" if nothing.
        cluster: Id of the passage, which stands alone where nothing names its article.
    """
    known = xquad_articles().get(source_id) if dataset == "xquad" else None
    return known or title or cluster
