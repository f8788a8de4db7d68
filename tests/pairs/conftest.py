"""A made-up data folder, with the pins of the real data set aside."""

from __future__ import annotations

import pytest

from lm_eval_illusion.pairs import docs, pins, sources
from lm_eval_illusion.pairs.sources import DATA_VARIABLE

from .made import write_folder


def forget() -> None:
    """Empty the caches of loaders and builders."""
    for cached in (sources._load, docs._parallel_set, docs._language_set, docs._build, docs._near):
        cached.cache_clear()


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(pins, "pins", dict)
    forget()
    yield str(write_folder(tmp_path))
    forget()
