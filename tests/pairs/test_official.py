"""The leaderboards' scripts, against values worked out by hand from their published code."""

import pytest

from lm_eval_illusion.pairs.official import mlqa_scores, mlqa_tokens, squad_scores, squad_tokens


def test_squad_tokens():
    assert squad_tokens("The U.S. Army, 1990-1995") == ["us", "army", "19901995"]


def test_squad_scores():
    assert squad_scores("the Nile river", ["Nile"]) == (0.0, pytest.approx(2 / 3))
    assert squad_scores("Nile.", ["x", "the nile"]) == (1.0, 1.0)
    assert squad_scores("", ["Nile"]) == (0.0, 0.0)


def test_mlqa_tokens():
    assert mlqa_tokens("北京市 NBA。", "zh") == ["北", "京", "市", "nba"]
    assert mlqa_tokens("der Rhein", "de") == ["rhein"]
    assert mlqa_tokens("القاهرة", "ar") == ["قاهرة"]
    assert mlqa_tokens("the Nile", "ru") == ["the", "nile"]


def test_mlqa_scores():
    assert mlqa_scores("北京市", ["北京"], "zh") == (0.0, pytest.approx(0.8))
    assert mlqa_scores("la casa", ["casa"], "es") == (1.0, 1.0)
