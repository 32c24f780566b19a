"""Maps and regressions over models: right where truth is known, refused where it can't be told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pessimal.compare import Covariates, read_covariates
from pessimal.compare.mds import make_map
from pessimal.compare.rsa import explain, permuted_regression, predictors
from pessimal.errors import UsageError


def distances(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))


def test_a_map_gives_back_places_in_a_plane() -> None:
    points = np.random.default_rng(0).uniform(0, 0.5, (8, 2))
    found = make_map(1 - distances(points))
    assert found.stress is not None
    assert found.stress < 0.01
    assert found.points is not None
    assert distances(np.array(found.points)) == pytest.approx(distances(points), abs=0.02)


def test_a_map_that_would_mislead_is_refused_with_its_stress() -> None:
    # Models that are all equally far apart need as many dimensions as there are models.
    found = make_map(np.full((12, 12), 0.4))
    assert found.points is None
    assert found.stress is not None
    assert found.stress > 0.20
    assert found.reason is not None
    assert f"{found.stress:.2f}" in found.reason


@pytest.mark.parametrize("k", [2, 4])
def test_a_map_of_too_few_or_unknown_is_refused(k: int) -> None:
    tau = np.full((k, k), 0.4)
    tau[0, -1] = tau[-1, 0] = np.nan
    found = make_map(tau)
    assert found.points is None
    assert found.reason


def symmetric(values: np.ndarray) -> np.ndarray:
    upper = np.triu(values, 1)
    return upper + upper.T


def pairs_with_model_effects(rng: np.random.Generator, k: int) -> np.ndarray:
    """Outcomes that depend on which model is in a pair, as those of real models do."""
    effect = rng.normal(size=k)
    return symmetric(effect[:, None] + effect[None] + 0.5 * rng.normal(size=(k, k)))


def test_permuting_models_keeps_its_level_where_pairs_hang_together() -> None:
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(200):
        groups = rng.integers(0, 3, 12)
        size = rng.uniform(1, 30, 12)
        matrices = {
            "same": (groups[:, None] == groups[None]).astype(float),
            "near": 1 / (1 + np.abs(size[:, None] - size[None])),
        }
        found, _ = permuted_regression(pairs_with_model_effects(rng, 12), matrices, seed, 199)
        rejected += found["same"][1] <= 0.05
    assert 2 <= rejected <= 20


def test_a_planted_effect_is_found_and_given_back() -> None:
    rng = np.random.default_rng(1)
    known = [
        Covariates(base="ab"[i % 2], developer="xyz"[i % 3], size=float(i + 1)) for i in range(14)
    ]
    matrices, _ = predictors(known)
    noise = symmetric(0.05 * rng.normal(size=(14, 14)))
    found = explain(0.4 + 0.3 * matrices["same_base"] + noise, known)
    assert found["status"] == "OK"
    terms = {term["name"]: term for term in found["terms"]}
    assert terms["same_base"]["coefficient"] == pytest.approx(0.3, abs=0.04)
    assert terms["same_base"]["p"] == pytest.approx(1 / 5001)
    assert terms["same_developer"]["p"] > 0.01
    assert terms["same_base"]["p_holm"] == pytest.approx(3 / 5001)
    assert {one["name"]: one["reason"] for one in found["dropped"]} == {
        "near_rank": "rank is unknown for 14 of 14"
    }


def test_nine_models_are_inconclusive() -> None:
    known = [Covariates(base="ab"[i % 2]) for i in range(9)]
    found = explain(symmetric(np.random.default_rng(0).normal(size=(9, 9))), known)
    assert (found["status"], found["terms"]) == ("INCONCLUSIVE", [])
    assert "10" in found["reason"]


def test_predictors_that_tell_nothing_are_named() -> None:
    known = [Covariates(base="one", developer="ab"[i % 2], rank=1.0 + i % 2) for i in range(10)]
    found, dropped = predictors(known)
    assert list(found) == ["same_developer"]
    reasons = {one["name"]: one["reason"] for one in dropped}
    assert "same for every pair" in reasons["same_base"]
    assert "before it" in reasons["near_rank"]
    tau = symmetric(np.random.default_rng(0).normal(size=(10, 10)))
    unknown = explain(tau, [Covariates() for _ in range(10)])
    assert unknown["status"] == "INCONCLUSIVE"
    assert "--covariates" in unknown["reason"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"id": "org/name", "base": {"id": "meta/base"}, "parameters": 8_030_000_000},
         Covariates("meta/base", "org", 8.03)),
        ({"id": "org/name"}, Covariates(developer="org")),
        ({"id": "runs/rm", "class": "LlamaForSequenceClassification"}, Covariates()),
        ({"id": "./rm", "base": {}}, Covariates()),
        ({"id": "models/of/mine"}, Covariates()),
        ({"id": "demo"}, Covariates()),
    ],
)  # fmt: skip
def test_what_a_document_says_of_a_model(model: dict, expected: Covariates) -> None:
    assert Covariates.of(model) == expected


def test_a_file_of_covariates_goes_over_what_documents_say(tmp_path: Path) -> None:
    file = tmp_path / "models.csv"
    file.write_text("model,Size,base\norg/a,8.03,\norg/b,,meta\n")
    found = read_covariates(file)
    assert found == {"org/a": Covariates(size=8.03), "org/b": Covariates(base="meta")}
    known = Covariates("old", "dev", 7.0)
    assert known.updated(found["org/b"]) == Covariates("meta", "dev", 7.0)


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("model,size\na,8B\n", "csv_number", "row 2"),
        ("model,rank\na,-1\n", "csv_number", "row 2"),
        ("model,sise\na,8\n", "csv_columns", "sise"),
        ("name,size\na,8\n", "csv_columns", "model"),
        ("model,size\na,8\na,9\n", "csv_duplicate", "rows 2 and 3"),
    ],
)
def test_wrong_covariates_are_refused(tmp_path: Path, text: str, code: str, named: str) -> None:
    file = tmp_path / "models.csv"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_covariates(file)
    assert caught.value.code == code
    assert named in caught.value.message
