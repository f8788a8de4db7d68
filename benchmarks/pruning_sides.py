"""The ways of pruning that `pruning.py` lets take turns."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pair import Worker
from turn import Turn

HERE = Path(__file__).parent
ON_THE_PROCESSOR = {"CUDA_VISIBLE_DEVICES": ""}
"""llmcompressor would move its blocks to any device it sees, while ours prunes where the model is."""


@dataclass
class Side:
    """One way of pruning, with what it took so far."""

    name: str
    command: list[str]
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the job."""
    timed: bool = True
    """False for a side that runs once, for what it leaves and not for what it takes."""
    turns: list[Turn] = field(default_factory=list)
    judged: dict[str, Any] = field(default_factory=dict)

    def once(self, job: Any, folder: Path) -> None:
        """Prune in a new process; the first time, also judge the result."""
        path = folder / "job.json"
        masks = folder / f"{job.method} {self.name}.masks"
        path.write_text(json.dumps(vars(replace(job, masks=str(masks), **self.changes))))
        worker = Worker(self.name, [*self.command, str(path)], ON_THE_PROCESSOR)
        self.turns.append(worker.once())
        if not self.judged:
            self.judged = {**worker.once().result, "masks": masks}
        worker.close()


def sides(rival: str | None) -> list[Side]:
    """Return every side; `rival` is the python of an environment with llmcompressor."""
    ours = [sys.executable, str(HERE / "pruning_ours.py")]
    published = [sys.executable, str(HERE / "pruning_published.py")]
    found = [
        Side("ours", ours),
        Side("ours, bfloat16 forward", ours, {"calibration_dtype": "bfloat16"}),
        Side("ours, published order", ours, {"sequential": "block"}, timed=False),
        Side("the published protocol", published),
        Side("the published protocol, rows reversed", published, {"reverse": True}, timed=False),
    ]
    if rival is not None:
        found.append(Side("llmcompressor", [rival, str(HERE / "pruning_llmcompressor.py")]))
    return found
