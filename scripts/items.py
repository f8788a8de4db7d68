"""Print built items as Markdown, to be looked at.

python scripts/items.py illusion_mini --items 20 > docs/items.md
python scripts/items.py tydiqa --languages sw te --items 20 --data FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.catalogue import dataset_named
from lm_eval_illusion.pairs.docs import build


def _options(row: dict[str, Any], distance: str) -> str:
    shown = []
    for i, (choice, source) in enumerate(zip(row[f"choices_{distance}"], row[f"sources_{distance}"], strict=True)):
        shown.append(f"**{choice}**" if i == row[f"gold_{distance}"] else f"{choice} ({source})")
    return "; ".join(shown)


def item_lines(row: dict[str, Any]) -> Iterator[str]:
    """Yield the Markdown lines of one item."""
    yield f"### {row['item_id']}"
    yield ""
    yield f"> {row['passage']}"
    yield ""
    yield f"* question: {row['question']}"
    yield f"* right: {' | '.join(row['answers'])}"
    yield f"* near: {_options(row, 'near')}"
    yield f"* far: {_options(row, 'far')}"
    yield ""


def page(dataset: str, languages: Sequence[str], items: int, folder: str | None) -> Iterator[str]:
    """Yield the Markdown lines of a page of items, a section a language."""
    entry = dataset_named(dataset)
    yield f"# Items of {dataset}"
    yield ""
    yield f"Made by `python scripts/items.py {dataset} --items {items}`. The right option is bold; others name their"
    yield f"origin. Licence of the questions: {entry.licence}."
    yield ""
    for language in languages or entry.languages:
        yield f"## {language}"
        yield ""
        for row in build(dataset, language, folder=folder, count=items).rows:
            yield from item_lines(row)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; return the exit code."""
    parser = argparse.ArgumentParser(description="Print built items as Markdown.")
    parser.add_argument("dataset", help="tydiqa, xquad or illusion_mini")
    parser.add_argument("--languages", nargs="*", default=[], help="codes; all by default")
    parser.add_argument("--items", type=int, default=20, help="items a language")
    parser.add_argument("--data", default=None, help="folder with tydiqa/ and xquad/")
    asked = parser.parse_args(argv)
    try:
        sys.stdout.write("\n".join(page(asked.dataset, asked.languages, asked.items, asked.data)).rstrip() + "\n")
    except IllusionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
