"""What every test shares: the long end-to-end test first, so that the other worker has the rest to do meanwhile."""

import logging
from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "e2e" not in item.keywords)


@pytest.fixture(autouse=True)
def _levels_of_loggers_as_they_were() -> Iterator[None]:
    """Put back what the harness's command line, run within a test, sets for the whole process."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    yield
    logger.setLevel(before)
