"""Questions made up for tests: a data folder in the shape of the real one, without a word of the real data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lm_eval_illusion.pairs.catalogue import DATASETS

PEOPLE = ("Anna Berg", "Omar Said", "Li Wei", "Ines Roca", "Juri Pohl", "Tara Moss", "Emil Kahn", "Nora Lund")
TOWNS = ("Arlen", "Bredow", "Corvin", "Dorsk", "Eltin", "Falun", "Gorin", "Hadum")


def article(number: int) -> dict[str, Any]:
    """Make one article: two passages of four questions each about a person, a town, a year and a count."""
    paragraphs = []
    for half in (0, 1):
        k = 2 * number + half
        people = [PEOPLE[(k + i) % 8] for i in range(4)]
        towns = [TOWNS[(k + i) % 8] for i in range(4)]
        years = [1900 + 13 * number + 5 * half + 2 * i for i in range(4)]
        counts = [20 + 37 * number + 11 * half + 3 * i for i in range(4)]
        text = " ".join(
            f"In {year} the singer {person} walked to {town} with {count} friends."
            for person, town, year, count in zip(people, towns, years, counts, strict=True)
        )
        asked = [
            (f"Who walked to {towns[0]}?", people[0]),
            (f"Where did {people[1]} walk to?", towns[1]),
            (f"When did {people[2]} walk?", str(years[2])),
            (f"How many friends had {people[3]}?", str(counts[3])),
        ]
        paragraphs.append(
            {
                "context": f"\ufeff{text}\n",
                "qas": [
                    {"id": f"a{number:02d}-{half}-{i}", "question": q, "answers": [{"text": a, "answer_start": 0}]}
                    for i, (q, a) in enumerate(asked)
                ],
            }
        )
    return {"title": f"Walk {number}", "paragraphs": paragraphs}


def squad(articles: int) -> dict[str, Any]:
    """Make a SQuAD-format file: eight questions an article."""
    return {"version": "1.1", "data": [article(number) for number in range(articles)]}


def write_folder(folder: Path, articles: int = 4) -> Path:
    """Write the files of both real data sets, all with the made-up content, and return the folder."""
    text = json.dumps(squad(articles), ensure_ascii=False)
    for name in ("tydiqa", "xquad"):
        for path in DATASETS[name].files.values():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    return folder
