"""Method "mwanda": Wanda with a say for channels on which languages differ; our reading of M-Wanda.

Score: abs(W_ij) * (sqrt(mean_l n_jl^2) + lambda * std_l n_jl) * p_j^g, compared within an output row; n_jl is the root
mean square of input channel j over the tokens of language l, p_j the share of tokens that activate it. The paper's
formulas (Choenni and Titov 2025) are not public to us. Mean and standard deviation weigh a language by its tokens, so
that with lambda = 0 and g = 0 the score is Wanda's to the bit, whatever the shares. Text of one language, where the
deviation is 0, is refused unless lambda is 0 too. lambda may be negative down to -1: channels on which languages differ
then go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import mwanda_score
from prune_hooks.statistics import Needs
from prune_hooks.zeros import erase


def _check_text(tokens: Mapping[str, int], options: Mapping[str, Any]) -> None:
    """Refuses text of one language, on which the method would be Wanda without saying so."""
    met = [language for language, count in tokens.items() if count]
    if options["lambda"] and len(met) < 2:
        found = "of unknown language" if met in ([], ["und"]) else f"in {met[0]} alone"
        raise PruneError(
            f"method 'mwanda' with lambda {options['lambda']:g} weighs how languages differ, and the calibration text "
            f"is {found}: expected two languages or more; set calibration_languages, name the files of a folder by "
            "their languages, give token rows as prune_hooks.calibration.label_rows makes them, or set "
            "method_options=lambda:0"
        )


@register_method(
    "mwanda",
    needs=Needs.LANGUAGES,
    options={
        "lambda": Option(0.5, least=-1, about="weight of the spread over languages"),
        "g": Option(0.0, least=0, about="power of the share of tokens that activate a channel"),
    },
    check_text=_check_text,
)
def mwanda(group: Group) -> list[Outcome]:
    """Removes the int(in * sparsity) lowest scores of every row; no weight is updated."""
    assert group.statistics is not None
    mean_square, languages = group.statistics.mean_square(), group.statistics.languages
    spread, activity = languages.spread(), languages.activity()
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        score = mwanda_score(matrix, mean_square, spread, activity, group.options["lambda"], group.options["g"])
        mask = group.choose(score, within="row")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes
