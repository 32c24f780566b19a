"""What each command does, once its flags are read. Imported only when a command runs."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from pessimal.cli.flags import (
    Flags,
    cache_folder,
    content_root,
    engine_options,
    model_request,
    speaker,
)
from pessimal.cli.output import print_document


def run_audit(flags: Flags) -> int:
    """``pessimal audit``."""
    from pessimal.cli.gate import write_reports
    from pessimal.pipeline.finished import read_reports
    from pessimal.pipeline.run import run_audit as audit
    from pessimal.pipeline.work import AuditRequest

    with engine_options(flags) as options:
        request = AuditRequest(
            model=model_request(flags), content=content_root(flags), cache=cache_folder(flags),
            pipeline=flags["pipeline"], policy=flags["policy"],
            tracking_uri=flags["tracking_uri"], human=flags["human"],
            base_model=flags["base_model"], categories=flags["categories"],
            baseline=flags["baseline"], options=options, quiet=flags["quiet"],
            command=shlex.join(["pessimal", *sys.argv[1:]]),
        )  # fmt: skip
        document = audit(request, speaker(flags))
    if "verdict" not in document:
        return _finish_share(document, flags)
    write_reports(flags, read_reports(document, request.content, request.tracking_uri))
    return _finish(document, flags)


def run_plan(flags: Flags) -> int:
    """``pessimal plan``."""
    from pessimal.pipeline.plan import plan_audit
    from pessimal.pipeline.spec import load_pipeline, load_prompts

    content = content_root(flags)
    pipeline = load_pipeline(flags["pipeline"], content.pipelines)
    book = load_prompts(content.pipelines)
    document = plan_audit(
        model_request(flags), pipeline, book, cache_folder(flags), try_it=flags["calibrate"]
    )
    if flags["as_json"]:
        print_document(document)
    else:
        from pessimal.cli.tables import print_plan

        print_plan(document)
    return 0


def run_score(flags: Flags) -> int:
    """``pessimal score``."""
    from pessimal.pipeline.score import ScoreRequest
    from pessimal.pipeline.score import run_score as score

    with engine_options(flags) as options:
        request = ScoreRequest(
            model=model_request(flags), cache=cache_folder(flags), prompt=flags["prompt"],
            tokens=flags["tokens"], as_text=flags["as_text"], out=flags["out"],
            options=options, quiet=flags["quiet"],
        )  # fmt: skip
        document = score(request, speaker(flags))
    if flags["as_json"]:
        print_document(document)
    elif not flags["quiet"]:
        from pessimal.cli.tables import print_scores

        print_scores(document)
    return 0


def run_gate(flags: Flags) -> int:
    """``pessimal gate``."""
    from pessimal.cli.gate import write_reports
    from pessimal.pipeline.evidence import render_reports
    from pessimal.pipeline.finished import judge_run

    document, judgement = judge_run(
        flags["run"], flags["policy"], content_root(flags), flags["tracking_uri"],
        baseline=flags["baseline"], verify=flags["verify"], publish=True,
    )  # fmt: skip
    write_reports(flags, render_reports(judgement, document))
    if flags["verify"] and not flags["as_json"]:
        speaker(flags)(" ".join(["Nothing has changed.", *document["verified"]["unchecked"]]))
    return _finish(document, flags)


def run_report(flags: Flags) -> int:
    """``pessimal report``."""
    from pessimal.pipeline.finished import report_run

    run_id = report_run(flags["run"], flags["out"], content_root(flags), flags["tracking_uri"])
    if flags["as_json"]:
        print_document({"schema": "pessimal.report/1", "run_id": run_id, "out": str(flags["out"])})
    elif not flags["quiet"]:
        speaker(flags)(f"Wrote {flags['out']}")
    return 0


def run_import(flags: Flags) -> int:
    """``pessimal import``."""
    from pessimal.pipeline.imported import ImportRequest
    from pessimal.pipeline.imported import run_import as import_scores

    request = ImportRequest(
        files=flags["files"], layout=flags["layout"], content=content_root(flags),
        prompts=flags["prompts"], categories=flags["categories"], valence=flags["valence"],
        policy=flags["policy"], tracking_uri=flags["tracking_uri"],
        command=shlex.join(["pessimal", *sys.argv[1:]]),
    )  # fmt: skip
    document = import_scores(request, speaker(flags))
    if flags["as_json"]:
        print_document(document)
    else:
        from pessimal.cli.tables import print_audit

        for run in document["runs"]:
            print_audit(run, quiet=flags["quiet"])
    code: int = document["exit_code"]
    return code


def run_ui(flags: Flags) -> int:
    """``pessimal ui``."""
    from pessimal.tracking import Tracker, serve_ui

    tracker = Tracker(flags["tracking_uri"], content_root(flags).home)
    serve_ui(tracker, flags["port"], say=speaker(flags))
    return 0


def _finish(document: dict[str, Any], flags: Flags) -> int:
    if flags["as_json"]:
        print_document(document)
    else:
        from pessimal.cli.tables import print_audit

        print_audit(document, quiet=flags["quiet"])
    code: int = document["exit_code"]
    return code


def _finish_share(document: dict[str, Any], flags: Flags) -> int:
    if flags["as_json"]:
        print_document(document)
    else:
        speaker(flags)(
            f"This share is done: {document['computed']:,} scored, {document['reused']:,} there"
            f" already, of {document['rows']:,}."
            " Run the other shares, then the command without --shard."
        )
    return 0
