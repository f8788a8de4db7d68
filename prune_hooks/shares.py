"""How `calibration_languages` is spelled: codes, codes with weights, or shares of pre-training text. Imports no torch.

en+sw            equal shares of tokens
en:2+sw:1        shares by weight; a code without one weighs 1
mbs+en+sw        shares in proportion to the language's tokens in mC4, as a stand-in for the model's own pre-training
                 text (the idea of Multilingual Brain Surgeon, Zeng et al. 2024)
mbs:FILE+en+sw   the same by a table of one's own: JSON or YAML, language: tokens or share
mbs              so for every language that the text has; a share of less than one token is none
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_hooks.errors import PruneError

MBS = "mbs"
"""Stands first where shares are those of pre-training text."""

MC4_TOKENS = {
    "en": 2733, "ru": 713, "es": 433, "de": 347, "fr": 318, "ja": 164, "it": 162, "pt": 146, "pl": 130, "vi": 116,
    "nl": 73, "tr": 71, "id": 69, "cs": 63, "ar": 57, "fa": 52, "ro": 52, "sv": 45, "el": 43, "uk": 41, "zh": 39,
    "hu": 39, "da": 29, "no": 27, "ko": 26, "fi": 25, "hi": 24, "bg": 22, "sk": 18, "he": 17, "mr": 14, "ca": 13,
    "ms": 13, "th": 11, "lt": 11, "sl": 8.8, "bn": 7.3, "lv": 7, "et": 6.9, "mt": 5.2, "cy": 4.9, "az": 4.4,
    "sr": 4.3, "sq": 4, "ta": 3.4, "ne": 3.2, "kk": 3.1, "ml": 2.7, "is": 2.6, "ka": 2.5, "gl": 2.4, "hy": 2.4,
    "ur": 2.4, "fil": 2.1, "be": 2, "mk": 1.8, "mn": 1.8, "af": 1.7, "sd": 1.6, "eu": 1.4, "tg": 1.4, "so": 1.4,
    "la": 1.3, "te": 1.3, "kn": 1.1, "lb": 1, "ky": 1, "sw": 1, "my": 0.9, "uz": 0.9, "gu": 0.8, "si": 0.8, "eo": 0.7,
    "km": 0.6, "pa": 0.6, "ga": 0.5, "fy": 0.4, "ps": 0.4, "gd": 0.4, "ku": 0.4, "jv": 0.3, "am": 0.3, "yi": 0.3,
    "zu": 0.2, "co": 0.2, "ceb": 0.2, "mg": 0.2, "sn": 0.2, "hmn": 0.2, "ht": 0.2, "ha": 0.2, "su": 0.1, "ny": 0.1,
    "lo": 0.1, "mi": 0.1, "sm": 0.09, "ig": 0.09, "haw": 0.09, "st": 0.08, "xh": 0.06, "yo": 0.05,
    "iw": 17, "tl": 2.1, "nb": 27,
}  # fmt: skip
"""Billions of tokens of a language in mC4: the corpus table of Xue et al., "mT5" (NAACL 2021). Text in Latin
transcription and of undetermined language is left out. The last line has other codes of he, fil and no."""

MC4_SOURCE = "mC4 (the corpus table of Xue et al. 2021)"


@dataclass(frozen=True)
class Wanted:
    """The languages asked for and how they share the tokens."""

    codes: tuple[str, ...] = ()
    """In the order given; empty: all that the source has."""
    weights: Mapping[str, float] | None = None
    """Code -> weight; None: equal, or by the table."""
    table: Path | None = None
    """File with one's own shares of pre-training text."""
    by_table: bool = False
    """True if shares are those of pre-training text."""

    @property
    def unequal(self) -> bool:
        """True if languages need not get equal shares."""
        return self.by_table or self.weights is not None

    def shares(self, present: Sequence[str]) -> dict[str, float]:
        """Returns the share of each language, adding up to 1.

        Args:
            present: codes that share the tokens: those asked for, or all there are.

        Raises:
            PruneError: if the table lacks one of them, or cannot be read.
        """
        weights: Mapping[str, float] = self.weights or dict.fromkeys(present, 1.0)
        if self.by_table:
            weights = MC4_TOKENS if self.table is None else read_table(self.table)
            missing = [code for code in present if code not in weights]
            if missing:
                where = MC4_SOURCE if self.table is None else str(self.table)
                raise PruneError(
                    f"calibration_languages asks for shares of pre-training text, of which {where} has none for "
                    f"{', '.join(missing)}: expected all of {', '.join(present)}; set mbs:FILE with a table of your own"
                )
        total = sum(weights[code] for code in present)
        return {code: weights[code] / total for code in present}


def parse_languages(given: Sequence[str]) -> Wanted:
    """Reads the entries of `calibration_languages`.

    Raises:
        PruneError: a language named twice, or a weight that is none.
    """
    by_table = bool(given) and given[0].partition(":")[0] == MBS
    table = given[0].partition(":")[2] if by_table else ""
    parts = [entry.partition(":") for entry in (given[1:] if by_table else given)]
    codes = tuple(code for code, _, _ in parts)
    shown = "+".join(given)
    twice = next((code for number, code in enumerate(codes) if code in codes[:number]), None)
    if twice is not None:
        raise PruneError(f"calibration_languages is {shown!r}: a language is named twice; name {twice} once")
    weights = {code: _positive(shown, text) for code, colon, text in parts if colon}
    if by_table and weights:
        raise PruneError(
            f"calibration_languages is {shown!r}: {MBS} takes the weights from a table; expected codes without weights"
        )
    given_weights = {code: weights.get(code, 1.0) for code in codes} if weights else None
    return Wanted(codes, given_weights, Path(table).expanduser() if table else None, by_table)


def divide(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divides `total` tokens by shares that add up to 1; each gets its due within one token, together exactly `total`.

    What rounding leaves over goes to the largest remainders, of equal ones to the earlier.
    """
    due = {code: total * share for code, share in shares.items()}
    whole = {code: math.floor(tokens + 1e-9) for code, tokens in due.items()}
    left = total - sum(whole.values())
    for code in sorted(due, key=lambda code: whole[code] - due[code])[:left]:
        whole[code] += 1
    return whole


def read_table(path: Path) -> dict[str, float]:
    """Reads a JSON or YAML file of language: tokens (or any share).

    Raises:
        PruneError: no such file, or content that is no such table.
    """
    expected = "expected a JSON or YAML mapping of language codes to numbers above 0"
    if not path.is_file():
        raise PruneError(f"calibration_languages names the table {path}, which is no file: {expected}")
    values = read_mapping(path, expected)
    read: dict[str, float] = {}
    for code, value in values.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not isinstance(code, str) or not number or not 0 < value < math.inf:
            raise PruneError(f"{path} holds {code!r}: {value!r}: {expected} (codes such as no in quotes)")
        read[code] = float(value)
    return read


def read_mapping(path: Path, expected: str) -> dict[Any, Any]:
    """Reads a file that holds one mapping, JSON by its name and YAML otherwise.

    Args:
        path: the file.
        expected: what it should hold, for messages.

    Raises:
        PruneError: content that cannot be read, or is no mapping, or has a key twice.
    """
    text = path.read_text(encoding="utf-8")
    try:
        values = json.loads(text, object_pairs_hook=_once) if path.suffix == ".json" else _yaml(text)
    except ValueError as error:
        raise PruneError(f"{path} cannot be read ({' '.join(str(error).split())}): {expected}") from error
    if not isinstance(values, dict) or not values:
        raise PruneError(f"{path} holds {type(values).__name__} {str(values)[:40]!r}: {expected}")
    return values


def _once(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    keys = [key for key, _ in pairs]
    twice = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} stands there twice")
    return dict(pairs)


def _yaml(text: str) -> Any:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if isinstance(node, yaml.MappingNode):
            _once([(key.value, None) for key, _ in node.value])
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _positive(shown: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise PruneError(
            f"calibration_languages is {shown!r}: {text!r} is no weight; expected numbers above 0, such as en:2+sw:1"
        )
    return weight
