"""What every test shares: the long end-to-end test first, so that the other worker has the rest to do meanwhile."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "e2e" not in item.keywords)
