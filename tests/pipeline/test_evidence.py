"""What a run leaves for later: reports, a record that finds changes, a registered version."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pessimal.cli.gate import REPORTS
from pessimal.errors import PessimalError, UsageError
from pessimal.pipeline.finished import judge_run, read_reports
from pessimal.pipeline.run import run_audit
from pessimal.pipeline.work import AuditRequest
from pessimal.project import find_content
from pessimal.tracking import Tracker, find_aliased, hash_file, registered_name
from tests.cli.runner import call
from tests.pipeline.conftest import EASY

Document = dict[str, Any]


@pytest.fixture
def home(light_audited: Document, light_project: Path) -> Path:
    return light_project


@pytest.fixture
def request_(light_request: AuditRequest) -> AuditRequest:
    return light_request


@pytest.fixture
def audited(light_audited: Document) -> Document:
    return light_audited


def artifact(home: Path, document: Document, place: str) -> Path:
    return Tracker(None, home).download(document["run_id"], place)


@pytest.fixture
def edited(home: Path) -> Iterator[Any]:
    """Edits a file for the time of a test."""
    before: dict[Path, bytes] = {}

    def edit(path: Path, data: bytes | None) -> None:
        before.setdefault(path, path.read_bytes() if path.exists() else b"")
        path.unlink() if data is None else path.write_bytes(data)

    yield edit
    for path, data in before.items():
        path.write_bytes(data)


def test_every_audit_leaves_its_reports_and_they_agree(audited: Document, home: Path) -> None:
    reports = read_reports(audited, find_content(home), None)
    root = ElementTree.fromstring(reports["gate/junit.xml"])
    assert len(list(root.iter("testcase"))) == len(audited["rules"])
    results = json.loads(reports["gate/gate.sarif"])["runs"][0]["results"]
    assert [one["properties"]["verdict"] for one in results] == [
        rule["verdict"] for rule in audited["rules"]
    ]
    for name in ("gate/gate.md", "gate/model_card.md"):
        assert reports[name].splitlines()[0].endswith(audited["verdict"])
    for place in audited["artifacts"]["gate"]:
        assert artifact(home, audited, place).stat().st_size > 0
    page = artifact(home, audited, "gate/data_docs.html").read_text()
    assert audited["rules"][0]["metric"] in page


def test_the_record_has_the_hash_of_every_input_and_artifact(audited: Document, home: Path) -> None:
    record = json.loads(artifact(home, audited, "record.json").read_text())
    assert {"weights", "config", "tokenizer"} <= record["model"]["files"].keys()
    assert record["policy"]["sha256"] == audited["policy_sha256"]
    assert record["prompts"].keys() == {one["id"] for one in audited["prompts"]}
    assert "pessimal/gate/judge.py" in record["code"]["files"]
    assert "audits/numerics.py" in record["code"]["files"]
    held = set(Tracker(None, home).artifacts(audited["run_id"])) - {"record.json"}
    assert held == record["artifacts"].keys()


def test_a_run_that_nobody_touched_is_verified(audited: Document, home: Path) -> None:
    document, _ = judge_run(audited["run_id"], None, find_content(home), None, verify=True)
    assert document["verified"] == {"changed": [], "unchecked": []}


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("audit.json", "audit.json changed"),
        ("gate/junit.xml", "junit.xml changed"),
        ("scores/vocabulary.parquet", "vocabulary.parquet changed"),
        ("inputs/policy.json", "policy.json changed"),
        ("record.json", "tag record.sha256 changed"),
    ],
)
def test_an_edited_artifact_is_found(
    audited: Document, home: Path, edited: Any, place: str, named: str
) -> None:
    path = artifact(home, audited, place)
    edited(path, path.read_bytes() + b"\n")
    with pytest.raises(PessimalError, match=named) as caught:
        judge_run(audited["run_id"], None, find_content(home), None, verify=True)
    assert (caught.value.code, caught.value.exit_code) == ("run_changed", 3)


def test_a_deleted_and_an_added_artifact_are_found(
    audited: Document, home: Path, edited: Any
) -> None:
    path = artifact(home, audited, "gate/gate.sarif")
    edited(path, None)
    added = path.with_name("more.txt")
    added.write_text("x")
    with pytest.raises(PessimalError, match=r"more\.txt was added.*gate\.sarif is gone"):
        judge_run(audited["run_id"], None, find_content(home), None, verify=True)
    added.unlink()


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("expectations/default.yaml", "the policy default changed"),
        ("audits/vocabulary.py", r"the code changed \(audits/vocabulary.py"),
    ],
)
def test_a_changed_input_is_found(
    audited: Document, home: Path, edited: Any, file: str, named: str
) -> None:
    path = home / file
    edited(path, path.read_bytes() + b"\n# later\n")
    with pytest.raises(PessimalError, match=named):
        judge_run(audited["run_id"], None, find_content(home), None, verify=True)


@pytest.mark.parametrize("part", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_changed_model_is_found(
    audited: Document, home: Path, model: Path, edited: Any, part: str
) -> None:
    edited(model / part, (model / part).read_bytes() + b" ")
    with pytest.raises(PessimalError, match=r"the model's (config|tokenizer|weights) changed"):
        judge_run(audited["run_id"], None, find_content(home), None, verify=True)


def test_a_model_that_is_elsewhere_is_named_as_unchecked(
    audited: Document, home: Path, model: Path
) -> None:
    aside = model.with_name("aside")
    shutil.move(model, aside)
    try:
        document, _ = judge_run(audited["run_id"], None, find_content(home), None, verify=True)
    finally:
        shutil.move(aside, model)
    assert any("weights" in line for line in document["verified"]["unchecked"])


def test_judging_again_loads_no_model_and_takes_seconds(
    audited: Document, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pessimal.models.loader", "pessimal.models.source"):
        monkeypatch.setattr(importlib.import_module(name), _entry(name), _forbidden)
    before = set(sys.modules)
    evil = home / "audits" / "evil.py"
    evil.write_text("raise SystemExit(99)")
    began = time.perf_counter()
    try:
        document, _ = judge_run(audited["run_id"], None, find_content(home), None)
    finally:
        evil.unlink()
    assert time.perf_counter() - began < 15
    assert document["verdict"] == audited["verdict"]
    assert not [name for name in set(sys.modules) - before if "_pessimal_audit_evil" in name]


def _entry(module: str) -> str:
    return {"pessimal.models.loader": "load_model", "pessimal.models.source": "open_source"}[module]


def _forbidden(*_: object) -> None:
    raise AssertionError("a model was loaded")


def test_a_local_model_can_be_waived_by_its_weights_hash(
    audited: Document, home: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "tight.yaml"
    policy.write_text(EASY.format(name="tight").replace("0.99", "0.000001"))
    content = find_content(home)
    document, judgement = judge_run(audited["run_id"], str(policy), content, None)
    assert (judgement.verdict, judgement.exit_code) == ("FAIL", 1)
    assert judgement.revision == audited["model"]["hashes"]["weights"]
    waivers = home / "expectations" / "waivers.yaml"
    before = waivers.read_text()
    text = (
        f"- metric: vocabulary.quantile_skew\n  slice: all\n  model: {document['model']['id']}\n"
        f'  revision: "{judgement.revision}"\n  reason: tests\n  owner: ada\n  expires: {{}}\n'
    )
    try:
        waivers.write_text(text.format("2999-01-01"))
        waived, _ = judge_run(audited["run_id"], str(policy), content, None)
        waivers.write_text(text.format("2001-01-01"))
        expired, _ = judge_run(audited["run_id"], str(policy), content, None)
    finally:
        waivers.write_text(before)
    assert (waived["verdict"], waived["exit_code"]) == ("WARN", 0)
    assert any(rule["waived"] for rule in waived["rules"])
    assert (expired["verdict"], expired["exit_code"]) == ("ERROR", 3)


def test_a_run_is_held_against_an_earlier_one(
    audited: Document, request_: AuditRequest, home: Path
) -> None:
    again = run_audit(
        replace(request_, baseline=audited["run_id"][:12], policy="report-only"),
        lambda text: None,
    )
    found = {(one["name"], one["slice"]): one for one in again["metrics"]}
    assert found["drift.tau", "all"]["value"] == pytest.approx(1)
    assert again["baseline"]["run_id"] == audited["run_id"]
    later, _ = judge_run(
        again["run_id"], None, find_content(home), None, baseline=audited["run_id"]
    )
    for one in again["metrics"]:
        if one["name"].startswith("drift."):
            assert one in later["metrics"]
    [rule] = [one for one in later["rules"] if one["metric"] == "drift.tau"]
    assert rule["verdict"] == "PASS"
    with pytest.raises(UsageError, match="its own baseline"):
        judge_run(again["run_id"], None, find_content(home), None, baseline=again["run_id"])


@pytest.mark.parametrize(
    ("reference", "code"), [("audited", "baseline_unknown"), ("0000", "baseline_unknown")]
)
def test_a_baseline_that_is_not_there_is_refused_before_scoring(
    audited: Document, request_: AuditRequest, reference: str, code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run_audit(replace(request_, baseline=reference), lambda text: None)
    assert caught.value.code == code


def test_a_baseline_of_other_prompts_is_refused(
    audited: Document, request_: AuditRequest, home: Path
) -> None:
    other = home / "pipelines" / "other.yaml"
    tiny = (home / "pipelines" / "tiny.yaml").read_text()
    other.write_text(
        tiny.replace("words: {prompts: [greatest, worst]}", "words: {prompts: [best]}")
    )
    with pytest.raises(UsageError, match="differs in the prompt best") as caught:
        run_audit(
            replace(request_, pipeline="other", baseline=audited["run_id"]), lambda text: None
        )
    assert caught.value.code == "baseline_mismatch"


def test_only_a_full_pass_under_the_projects_own_policy_earns_the_alias(
    audited: Document, request_: AuditRequest, home: Path, tmp_path: Path
) -> None:
    content = find_content(home)
    tracker = Tracker(None, home)
    name = request_.model.model

    impostor, tight = tmp_path / "default.yaml", tmp_path / "tight.yaml"
    impostor.write_text(EASY.format(name="default") + "# easier\n")
    tight.write_text(EASY.format(name="tight").replace("0.99", "0.000001"))

    def gate(run_id: str, policy: str, *, publish: bool = True) -> tuple[str, str | None]:
        document, _ = judge_run(run_id, policy, content, None, publish=publish)
        return document["verdict"], find_aliased(tracker, name, "audited")

    assert gate(audited["run_id"], "default") == ("PASS", None)  # a sample earns nothing
    whole = run_audit(replace(request_, pipeline="whole"), lambda text: None)["run_id"]
    assert find_aliased(tracker, name, "audited") == whole
    [version] = tracker.client.search_model_versions(f"name='{registered_name(name)}'")
    assert version.tags["verdict"] == "PASS"
    assert version.tags["waivers"] == "none"
    assert tracker.client.get_registered_model(version.name).tags["pessimal.model"] == name
    assert gate(audited["run_id"], "default") == ("PASS", whole)  # nor does it take anything away
    assert gate(whole, str(tight), publish=False) == ("FAIL", whole)
    assert gate(whole, str(tight)) == ("FAIL", None)
    assert gate(whole, str(impostor)) == ("PASS", None)  # its name is the project's, its bytes not
    assert gate(whole, "default") == ("PASS", whole)
    for reference in ("audited", f"{name}@audited"):
        document, _ = judge_run(audited["run_id"], None, content, None, baseline=reference)
        assert document["baseline"]["run_id"] == whole


def test_the_command_judges_verifies_and_writes_every_report(
    audited: Document, home: Path, tmp_path: Path, edited: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / "new folder" / name for name in REPORTS}
    flags = [part for name, file in files.items() for part in (f"--{name.replace('_', '-')}", file)]
    command = ("gate", audited["run_id"][:12], "--project", home, "--verify", "--json")
    done = call(capsys, *command, *flags)
    assert (done.code, done.document["verdict"]) == (audited["exit_code"], audited["verdict"])
    for name, file in files.items():
        stored = artifact(home, audited, REPORTS[name][0])
        assert file.read_text(encoding="utf-8") == stored.read_text(encoding="utf-8"), name
    shown = call(capsys, *command[:-1])
    assert shown.code == audited["exit_code"]
    assert max(map(len, shown.out.splitlines()[: len(audited["rules"])])) <= 80
    report = artifact(home, audited, "report.html")
    edited(report, report.read_bytes() + b"<!-- -->")
    done = call(capsys, *command)
    assert (done.code, done.document["error"]) == (3, "run_changed")
    assert "report.html" in done.document["message"]


def test_the_run_is_tagged(audited: Document, home: Path) -> None:
    tags = Tracker(None, home).tags(audited["run_id"])
    assert tags["verdict"] == audited["verdict"]
    assert tags["policy.sha256"] == audited["policy_sha256"]
    assert tags["record.sha256"] == hash_file(artifact(home, audited, "record.json"))
