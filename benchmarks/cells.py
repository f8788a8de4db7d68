"""Tables that are measured cell by cell, each in a process of its own, and taken up again where they were left.

A script gives its cells as JSON-able mappings and answers `--cell JSON` by printing the cell's row as its last line.
Rows lie in one JSON file; a cell that is there is not measured again, one that failed is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Row = dict[str, Any]


class Table:
    """Finished rows in a file, and what they were made from."""

    def __init__(self, path: Path, made_from: dict[str, Any]) -> None:
        """Opens the file, or begins one.

        Raises:
            SystemExit: if its rows were made from something else.
        """
        self._path = path
        self._made_from = json.loads(json.dumps(made_from))
        self.rows: dict[str, Row] = {}
        if path.is_file():
            held = json.loads(path.read_text(encoding="utf-8"))
            other = {
                key
                for key in {*held["made_from"], *made_from}
                if held["made_from"].get(key) != self._made_from.get(key)
            }
            if other:
                raise SystemExit(
                    f"--out {path} holds rows of another {', '.join(sorted(other))}: expected the options they were "
                    "made with; name another file"
                )
            self.rows = held["rows"]

    def row(self, cell: Cell) -> Row | None:
        """Returns a cell's row if it was measured and did not fail."""
        row = self.rows.get(_key(cell))
        return None if row is None or "error" in row else row

    def add(self, cell: Cell, row: Row) -> None:
        """Enters a row and writes the file."""
        self.rows[_key(cell)] = row
        text = json.dumps({"made_from": self._made_from, "rows": self.rows}, indent=1, ensure_ascii=False)
        scratch = self._path.with_name(f"{self._path.name}.part")
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(self._path)


def measure_all(script: Path, argv: Sequence[str], cells: Iterable[Cell], table: Table) -> list[Row]:
    """Measures what is not there yet; returns all rows in the cells' order, failed ones with their error."""
    rows = []
    for cell in cells:
        row = table.row(cell)
        if row is None:
            row = in_own_process(script, argv, cell)
            table.add(cell, row)
            said = row.get("error") or ", ".join(f"{k} {v}" for k, v in row.items() if k not in cell)
            print(f"{_short(cell)}: {said}", file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def in_own_process(script: Path, argv: Sequence[str], cell: Cell) -> Row:
    """Measures one cell in a new process; a failure becomes a row with the last line of its message."""
    command = [sys.executable, str(script), *argv, "--cell", json.dumps(cell)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {**cell, "error": lines[-1] if lines else f"exit code {done.returncode}"}
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def comma_separated(text: str) -> list[str]:
    """Returns what commas part, as argparse's type of an option."""
    return [word for word in text.split(",") if word]


def table_line(values: Iterable[Any]) -> str:
    """Returns a line of a Markdown table; None is a dash."""
    return "| " + " | ".join("-" if value is None else str(value) for value in values) + " |"


def head(names: Sequence[str]) -> str:
    """Returns the two lines that begin a Markdown table."""
    return "\n".join((table_line(names), table_line(["---"] * len(names))))


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _short(cell: Cell) -> str:
    return ", ".join(f"{value}" for value in cell.values() if value not in (None, "", {}))
