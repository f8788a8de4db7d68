"""Vega-Lite specifications to SVG text, in the style sheet's colours, so that pictures follow light and dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert

__all__ = ["FONT", "Values", "colour", "draw", "values"]

Spec = Mapping[str, Any]
Values = Sequence[Mapping[str, Any]]

VERSION = "6.1"
"""Of Vega-Lite: the picture does not change when the converter learns a newer one."""
FONT = "system-ui, sans-serif"

_ROOM = {"left": 26, "right": 8, "top": 2, "bottom": 2}
"""Room around a picture: a reader's font may be wider than the one that labels were measured with."""
_INK, _SOFT, _GRID = "var(--ink)", "var(--soft)", "var(--grid)"
_CONFIG: dict[str, Any] = {
    "aria": False,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "domainColor": _SOFT,
        "tickColor": _SOFT,
        "gridColor": _GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
        "labelOverlap": True,
    },
    "text": {"color": _INK, "fontSize": 12},
    "rule": {"color": _INK},
}


def colour(name: str) -> str:
    """The style sheet's colour of this name."""
    return f"var(--{name})"


def values(rows: Values) -> dict[str, Any]:
    """Data as a specification wants it."""
    return {"values": [dict(row) for row in rows]}


def draw(spec: Spec) -> str:
    """Draw one panel.

    The picture is hidden from screen readers: whoever shows it says in words what it shows. Nothing is fetched.

    Args:
        spec: A Vega-Lite specification without schema, ground and configuration.

    Returns:
        An `<svg>` element. Texts in the data are escaped.
    """
    whole = {"background": None, "padding": _ROOM, "config": _CONFIG, **spec}
    svg: str = vl_convert.vegalite_to_svg(whole, vl_version=VERSION, allowed_base_urls=[])
    return re.sub(r"^<svg ", '<svg aria-hidden="true" focusable="false" ', svg, count=1)
