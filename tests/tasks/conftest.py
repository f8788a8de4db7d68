"""The task folder as the harness indexes it, over made-up data."""

from __future__ import annotations

from pathlib import Path

import pytest
from lm_eval.tasks import TaskManager

from tests.pairs.conftest import data_folder

__all__ = ["data_folder"]

TASKS = Path(__file__).resolve().parent.parent.parent / "tasks"


@pytest.fixture
def manager(data_folder):
    """Return a function that gives a task manager with further metadata."""

    def make(**metadata):
        told = {"illusion_data": data_folder, "pretrained": "some/model", "revision": "main", **metadata}
        return TaskManager(include_path=str(TASKS), include_defaults=False, metadata=told)

    return make
