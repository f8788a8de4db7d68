"""Which language a file is in, read off its name."""

from __future__ import annotations

from pathlib import PurePath

from prune_hooks.calibration.documents import UNKNOWN_LANGUAGE

_ISO_639_1 = (
    "af am ar as az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu ha he hi hr ht hu hy id ig is it iw "
    "ja jv ka kk km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms mt my nb ne nl nn no ny or pa pl ps pt qu ro ru rw "
    "sd si sk sl sm sn so sq sr st su sv sw ta te tg th ti tk tl tr tt ug uk ur uz vi xh yi yo zh zu"
)
CODES = frozenset(_ISO_639_1.split())
"""ISO 639-1 codes that are recognised in file names."""

NAMES = {
    "arabic": "ar",
    "bengali": "bn",
    "chinese": "zh",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "indonesian": "id",
    "japanese": "ja",
    "korean": "ko",
    "romanian": "ro",
    "russian": "ru",
    "spanish": "es",
    "swahili": "sw",
    "telugu": "te",
    "thai": "th",
    "turkish": "tr",
    "vietnamese": "vi",
}
"""English names of languages that are recognised in file names (TyDi QA names its files so)."""


def language_of(file: str | PurePath) -> str:
    """Return the language code in a file name such as `sw.txt`, `xquad.sw.json` or `dev-swahili.json`, else "und".

    Only the last part before the suffix counts, parts being set apart by a dot, hyphen or underscore.
    """
    last = PurePath(file).stem.lower().replace("-", ".").replace("_", ".").rsplit(".", 1)[-1]
    return last if last in CODES else NAMES.get(last, UNKNOWN_LANGUAGE)
