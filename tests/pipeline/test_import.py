"""Published score tables become audit runs, with no model at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pessimal.errors import UsageError
from pessimal.lexicons import valence_words
from pessimal.pipeline.finished import judge_run, report_run
from pessimal.pipeline.imported import ImportRequest, extend, run_import
from pessimal.pipeline.published import publish_elo, publish_words
from pessimal.pipeline.rankings import median_gaps
from pessimal.pipeline.spec import PromptBook, load_prompts
from pessimal.project import ContentRoot, find_content
from pessimal.scores.table import WordTable
from pessimal.tracking import Tracker
from tests.cli.runner import call

GREATEST = "What, in one word, is the greatest thing ever.csv"
HUMAN_GREATEST = "What one single thing, person, or concept is the greatest ever.csv"
PROMPTS = [f"{a}_{s}_one" for a in ("best", "good", "worst", "bad") for s in ("ever", "time")]


@pytest.fixture
def content(copied: Path) -> ContentRoot:
    return find_content(copied)


@pytest.fixture
def book(project: Path) -> PromptBook:
    return load_prompts(find_content(project).pipelines)


def quiet(request: ImportRequest) -> dict:
    return run_import(request, lambda text: None)


def elo_file(path: Path, models: dict[str, float], n: int = 1200, seed: int = 0) -> Path:
    """Entities whose scores under each model follow people's with some weight."""
    rng = np.random.default_rng(seed)
    human = np.round(np.random.default_rng(1).normal(1500, 100, n))
    frame = pd.DataFrame({
        "elo_rank": range(n), "elo_score": human, "name": [f"Thing {i}" for i in range(n)],
        "elo_matches": np.arange(n) + 1,
    })  # fmt: skip
    for model, weight in models.items():
        frame[model] = weight * (human - 1500) / 100 + rng.normal(size=n)
    frame.to_csv(path, index=False)
    return path


def words_file(path: Path, words: list[str], seed: int = 0, **columns: str) -> Path:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"response": words})
    for prompt in columns or PROMPTS:
        sign = -1 if prompt.startswith(("worst", "bad")) else 1
        value = np.array([1.0 if i < len(words) / 2 else -1.0 for i in range(len(words))])
        frame[prompt] = sign * value + rng.normal(size=len(words))
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)
    return path


def test_an_elo_import(content: ContentRoot, tmp_path: Path):
    files = (
        elo_file(tmp_path / GREATEST, {"org/follows": 1.0, "org/ignores": 0.0}),
        elo_file(tmp_path / HUMAN_GREATEST, {"org/follows": 1.0, "third": -1.0}, seed=3),
    )
    document = quiet(ImportRequest(files, "elo", content))
    assert document["schema"] == "pessimal.import/1"
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    runs = {run["model"]["id"]: run for run in document["runs"]}
    assert list(runs) == ["org/follows", "org/ignores", "third"]

    follows = runs["org/follows"]
    assert follows["schema"] == "pessimal.audit/1"
    assert follows["pipeline"] == "import"
    assert follows["policy"] == "report-only"
    assert follows["exit_code"] == 0
    assert follows["model"]["head"] is None
    assert [prompt["id"] for prompt in follows["prompts"]] == ["greatest", "human_greatest"]
    assert [entry["file"] for entry in follows["imported"]] == [GREATEST, HUMAN_GREATEST]
    states = {audit["name"]: audit["status"] for audit in follows["audits"]}
    assert states["human"] == "RUN"
    assert states["numerics"] == states["vocabulary"] == states["base_model"] == "NOT_RUN"
    assert "ERROR" not in states.values()

    def tau(model: str) -> float:
        (metric,) = [
            m for m in runs[model]["metrics"] if (m["name"], m["slice"]) == ("human.tau", "all")
        ]
        assert metric["n"] == 1200
        return metric["value"]

    assert tau("org/follows") > 0.4
    assert abs(tau("org/ignores")) < 0.1
    assert tau("third") < -0.4

    tracker = Tracker(None, content.home)
    table = WordTable.read(tracker.download(follows["run_id"], "scores/words.parquet"))
    assert table.prompts == ("greatest", "human_greatest")
    assert set(table.frame["list"]) == {"human"}
    assert tracker.load_document(follows["run_id"])["verdict"] == follows["verdict"]

    document, judgement = judge_run(follows["run_id"], None, content, None)
    assert judgement.exit_code == 0
    report_run(follows["run_id"], tmp_path / "report.html", content, None)
    assert "org/follows" in (tmp_path / "report.html").read_text()


def test_the_models_median_against_people(book: PromptBook, tmp_path: Path):
    path = tmp_path / GREATEST
    path.write_text(
        "name,score,matches,a,b,c\nSun,9,1,1,1,3\nMoon,8,1,3,3,2\nStar,7,1,2,2,1\n", "utf-8"
    )
    gaps = median_gaps(publish_elo((path,), book))
    assert gaps is not None
    # Ranks a, b, c: Sun 3 3 1, Moon 1 1 2, Star 2 2 3; people 1, 2, 3.
    first = gaps["greatest"][0]
    assert (first["entity"], first["human_rank"], first["median_rank"]) == ("Sun", 1, 3)
    assert (first["rank_gap"], first["position"]) == (2, 1)
    assert first["rank_gap_with_human"] == 1
    assert [row["rank_gap"] for row in gaps["greatest"]] == [2, -1, -1]
    assert [row["position"] for row in gaps["greatest"]] == [1, 2, 2]


def test_a_words_import(content: ContentRoot, tmp_path: Path):
    words = valence_words(200)
    files = (
        words_file(tmp_path / "one" / "org_model.csv", words),
        words_file(tmp_path / "human" / "org_model.csv", words[90:110], seed=5),
        words_file(tmp_path / "one" / "other.csv", words, seed=9),
    )
    categories = tmp_path / "kinds.csv"
    rows = [f"{word},{'up' if i < 100 else 'down'}" for i, word in enumerate(words)]
    categories.write_text("word,category\n" + "\n".join(rows), "utf-8")
    request = ImportRequest(files, "words", content, categories=categories)
    runs = {run["model"]["id"]: run for run in quiet(request)["runs"]}
    assert list(runs) == ["org/model", "other"]
    run_ = runs["org/model"]
    metrics = {(metric["name"], metric["slice"]): metric for metric in run_["metrics"]}
    assert metrics["framing.d_pos", "all"]["value"] > 1
    assert metrics["framing.reversal", "all"]["status"] == "ok"
    delta = metrics["values.delta", "contrast=up vs down,framing=positive"]
    assert delta["value"] > 0.5
    # A folder whose name is one of the engine's own lists doesn't claim that list.
    assert [entry["name"] for entry in run_["word_lists"]] == ["one", "human words"]
    assert run_["reruns"]["words"] == 20
    assert run_["reruns"]["rms"] == pytest.approx(1, abs=0.4)
    assert runs["other"]["reruns"] is None


def test_a_valence_lexicon_of_ones_own(content: ContentRoot, tmp_path: Path):
    words = valence_words(200)
    file = words_file(tmp_path / "model.csv", words)
    turned = tmp_path / "turned.csv"
    turned.write_text(
        "word,valence\n" + "".join(f"{w},{-1 if i < 100 else 1}\n" for i, w in enumerate(words))
    )

    def d(valence: str) -> float:
        (run_,) = quiet(ImportRequest((file,), "words", content, valence=valence))["runs"]
        assert any(Path(valence).name in note for note in run_["model"]["notes"])
        return next(m["value"] for m in run_["metrics"] if m["name"] == "framing.d_pos")

    assert d(str(turned)) == pytest.approx(-d("vader"), abs=1e-6)


def test_prompts_of_ones_own(book: PromptBook, tmp_path: Path):
    file = words_file(tmp_path / "model.csv", ["love", "hate"], mine="", worst="")
    prompts = tmp_path / "prompts.yaml"

    def framing(text: object) -> str:
        prompts.write_text(yaml.safe_dump({"mine": text}), "utf-8")
        (model,) = publish_words((file,), extend(book, prompts))
        assert list(model.prompts) == ["mine", "worst"]
        return model.prompts["mine"].framing

    assert framing("What, in one word, is the worst thing of all time?") == "negative"
    assert framing({"framing": "positive", "text": "Why?"}) == "positive"
    with pytest.raises(UsageError, match="best or the worst"):
        framing("Why?")
    with pytest.raises(UsageError, match="column 'mine' is no known prompt"):
        publish_words((file,), book)


def test_an_unknown_elo_prompt_is_said(book: PromptBook, tmp_path: Path):
    file = elo_file(tmp_path / "Which thing, of all, is best.csv", {"m": 1.0}, n=5)
    (model,) = publish_elo((file,), book)
    assert list(model.prompts) == ["which_thing_of_all_is_best"]
    assert any("Which thing, of all, is best" in note for note in model.notes)


def test_rankings_that_contradict_each_other(book: PromptBook, tmp_path: Path):
    first = elo_file(tmp_path / GREATEST, {"m": 1.0}, n=20)
    second = elo_file(tmp_path / HUMAN_GREATEST, {"m": 1.0}, n=20)
    second.write_text(second.read_text().replace("Thing 7,8", "Thing 7,9"))
    with pytest.raises(UsageError, match="'Thing 7' different human scores"):
        publish_elo((first, second), book)
    with pytest.raises(UsageError, match="named twice"):
        publish_elo((first, first), book)


@pytest.mark.parametrize(
    ("content_", "flags", "error"),
    [
        ("response,best\nlove,1\nlove,2\n", [], "csv_duplicate"),
        ("response;best\nlove;1\n", [], "csv_separator"),
        ("response,best\nlove,inf\n", [], "csv_number"),
        ("", [], "file_empty"),
        ("response,nothing\nlove,1\n", [], "prompt_unknown"),
        ("response,best\nlove,1\n", ["--valence", "one-sided.csv"], "lexicon_one_sided"),
        ("response,best\nlove,1\n", ["--valence", "nothing"], "lexicon_unknown"),
        ("response,best\nlove,1\n", ["--categories", "none.dicx"], "file_unreadable"),
        ("response,best\nlove,1\n", ["--policy", "nothing"], "policy_not_found"),
    ],
)
def test_nothing_is_recorded_of_what_is_refused(
    copied: Path, tmp_path: Path, content_: str, flags: list[str], error: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("response,best\nlove,1\n")
    (tmp_path / "bad.csv").write_text(content_)
    (tmp_path / "one-sided.csv").write_text("word,valence\nlove,1\n")
    outcome = call(
        capsys, "import", "--format", "words", "good.csv", "bad.csv", *flags, "--project", copied,
        "--json",
    )  # fmt: skip
    assert outcome.code == 2, outcome.err
    assert outcome.document["error"] == error
    assert not [path for path in (copied / "mlruns").rglob("*") if path.is_file()]
