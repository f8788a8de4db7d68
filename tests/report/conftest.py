"""The synthetic run writer is importable by every test of this folder; pages are driven where there is a Chromium."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from chromium import find

collect_ignore = [] if find() else ["test_page_browser.py"]
