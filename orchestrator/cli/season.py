"""Commands for a contest in a folder: opening it, submissions, promotion, boards and rescoring."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.application.contests import (
    package_submission,
    picture_submission,
    promotion,
    report_writer,
    rescoring,
    season_rounds,
    seasons,
    submission_admission,
)
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.bundles.receipts import Receipt
from orchestrator.cli import console, output_paths, remote, results_output
from orchestrator.cli.console import Backend, Json, Unisolated, err, out, parse_side, safe_text
from orchestrator.cli.remote import RemoteOptions, RemoteSubmission
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.contest_format import Format
from orchestrator.domain.submissions import Side
from orchestrator.errors import UsageError
from orchestrator.intake import manifest
from orchestrator.ledger.contest_folder import ContestFolder

ContestDir = Annotated[Path, typer.Argument(help="The contest's folder.", metavar="DIR")]
By = Annotated[
    str | None, typer.Option("--by", help="Your name for the ledger; bundles publish it. Default: organizer.")
]
Task = Annotated[str | None, typer.Option("--task", help="The task; required if there are several.")]
OnlyTask = Annotated[str | None, typer.Option("--task", help="Only this task; default: every task.")]
ImageSide = Annotated[
    Side | None,
    typer.Option(
        "--side",
        parser=parse_side,
        metavar="attack|defence",
        help="For an image: its side. Default: the manifest's.",
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="The reason, for the ledger. It may be published.")]

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip", ".npz")
Submission = Annotated[str, typer.Argument(help="Its id in this contest.", metavar="ID")]


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Options for where players run."""

    backend: Backend = "process"
    allow_unisolated: Unisolated = False


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Options for an image, which has no manifest."""

    name: Annotated[str, typer.Option("--name", help="For an image: its name. Default: the manifest's.")] = ""
    side: ImageSide = None


Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="Keep the ledger in PostgreSQL, for several machines: postgresql://USER@HOST/DATABASE. Default: in DIR.",
    ),
]


@console.command
def init(
    folder: ContestDir,
    template: Annotated[
        str, typer.Option("--template", "--format", help="The format of the contest file to start from.")
    ] = "tournament",
    database: Database = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Make a contest folder: a commented contest.yaml that runs as it is, an empty ledger, the organizers' key."""
    output_paths.require_folder_path(folder, "DIR")
    contest_folder = seasons.create_contest(folder, template, by, database=database)
    _print_opened(contest_folder, ": edit it before the first submission", as_json=as_json)


@console.command
def open_(folder: ContestDir, database: Database = None, by: By = None, as_json: Json = False) -> None:
    """Open the contest whose contest.yaml is already in a folder: create an empty ledger and the organizers' key."""
    _print_opened(seasons.open_contest(folder, by, database=database), "", as_json=as_json)


def _print_opened(folder: ContestFolder, hint: str, *, as_json: bool) -> None:
    """Prints the path of a new contest's file, a hint what to do with it, and the fingerprint of its key."""
    key = folder.key().fingerprint
    if as_json:
        console.print_json({"contest": str(folder.path), "file": str(folder.file), "key": key})
        return
    out.print(f"contest  {safe_text(str(folder.file))}{hint}", soft_wrap=True)
    out.print(
        f"key      {key}: publish this fingerprint, keep {safe_text(str(folder.path / 'key'))} to yourself",
        soft_wrap=True,
    )


@console.command
def submit(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The contest's folder, unless --to says where it is, and what is submitted: a folder with a "
            "submission.yaml, a package of one, an image, or an archive of pictures where the contest takes them.",
            metavar="[DIR] SUBMISSION",
        ),
    ],
    team_name: Annotated[str, typer.Option("--team", help="The team that submits.")],
    task: Task = None,
    image: ImageOptions = ImageOptions(),
    where: BackendOptions = BackendOptions(),
    by: By = None,
    site: RemoteOptions = RemoteOptions(),
    as_json: Json = False,
) -> None:
    """Submit an entry for a team. All problems come at once; a refused submission counts as no attempt.

    DIR is the contest's folder on this machine. With --to the contest is a site elsewhere: the command packs a folder,
    sends it in parts, and shows its admission. After an interruption the same command continues.
    If a team submits the same again, it gets the first receipt, and no attempt is counted.
    """
    if site.to is not None:
        if (where, by) != (BackendOptions(), None):
            raise UsageError("--backend, --allow-unisolated and --by are for a contest's folder; leave them out")
        if len(words) != 1:
            raise UsageError(f"with --to give one SUBMISSION, not {len(words)}")
        sent = RemoteSubmission(words[0], team_name, task or "", image.name, image.side)
        remote.submit(sent, site.to, site, as_json=as_json)
        return
    if site != RemoteOptions():
        raise UsageError("--no-wait and --receipt are for a site; give --to")
    if len(words) != len(("DIR", "SUBMISSION")):
        raise UsageError("give DIR and SUBMISSION, or --to and SUBMISSION")
    folder, submission = Path(words[0]), words[1]
    with seasons.administer(folder, by) as admin:
        request = SubmissionRequest(team_name, task or admin.contest.only_task, name=image.name, side=image.side)
        known = set(admin.season.entries)
        options = RunOptions(backend=where.backend, allow_unisolated=where.allow_unisolated)
        receipt = _submit(admin, request, submission, options)
        name = admin.season.entries[receipt.submission].name
        left = _left_text(admin.contest.format, receipt)
    if as_json:
        console.print_json(receipt.document())
        return
    _print_receipt(receipt, name, left, again=receipt.submission in known)
    out.print(f"receipt  {safe_text(str(folder / 'receipts' / (receipt.submission + '.json')))}", soft_wrap=True)
    for warning in receipt.warnings:
        console.print_warning(warning)


def _print_receipt(receipt: Receipt, name: str, left: str, *, again: bool) -> None:
    """Prints a receipt. `name` is the manifest's name, `left` says how many submissions the team has left."""
    out.print(
        f"received {safe_text(receipt.submission)} for {safe_text(receipt.team)} on "
        f"{safe_text(receipt.task)}, {receipt.side}"
    )
    if name != receipt.submission:
        out.print(
            f"id       {safe_text(receipt.submission)}, because another submission or baseline is {safe_text(name)}; "
            "commands and leaderboards use the id",
            soft_wrap=True,
        )
    if again:
        out.print("before   the same was received already, and uses up nothing: this is its receipt", soft_wrap=True)
    out.print(f"digest   {receipt.digest}", soft_wrap=True)
    out.print(f"time     {receipt.received}; attempt {receipt.attempt}{left}")


def _left_text(rules: Format[Any], receipt: Receipt) -> str:
    """Returns how many submissions the team has left, in words; "" if the contest has no limit."""
    if rules.submissions_per_day() is not None:
        return f", {receipt.attempts_left} left on this day (C9)"
    return f", {receipt.attempts_left} left (A4)" if rules.submissions_per_team() is not None else ""


def _submit(admin: ContestAdmin, request: SubmissionRequest, submission: str, options: RunOptions) -> Receipt:
    """Submits what the operator named: pictures, a package, a folder or an image."""
    path = Path(submission)
    if not path.exists() and submission.endswith(_ARCHIVES):
        raise UsageError(f"there is no file {submission}")
    if admin.contest.format.picture_formats() and not (path / manifest.FILE_NAME).exists():
        return picture_submission.submit_pictures(admin, request, path)
    ready = play_rounds.ready_backend(admin.contest, admin.folder.path.resolve(), options)
    if path.is_file():
        return package_submission.submit_package(admin, request, path, ready, console.print_log_line)
    if path.is_dir():
        return submission_admission.submit(admin, replace(request, folder=path), ready)
    if options.backend == "process" or submission.startswith((".", "/", "~")) or submission.endswith("/"):
        images = "" if options.backend == "process" else ", or the name of an image"
        raise UsageError(f"there is no file or folder {submission}; give a folder with a submission.yaml{images}")
    return submission_admission.submit(admin, replace(request, image=submission), ready)


@console.command
def withdraw(folder: ContestDir, submission: Submission, reason: Reason, by: By = None, as_json: Json = False) -> None:
    """Withdraw a submission in its team's name. It stays in the ledger and counts as an attempt."""
    with seasons.administer(folder, by) as admin:
        admin.withdraw(submission, reason)
    console.print_fields({"withdrawn": submission, "reason": reason}, as_json=as_json)


@console.command
def disqualify(
    folder: ContestDir, submission: Submission, reason: Reason, by: By = None, as_json: Json = False
) -> None:
    """Remove a submission from the ranking, and record the reason."""
    with seasons.administer(folder, by) as admin:
        admin.disqualify(submission, reason)
    console.print_fields({"disqualified": submission, "reason": reason}, as_json=as_json)


@console.command
def set_source(
    folder: ContestDir,
    submission: Submission,
    reason: Reason,
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", help="The SPDX id of its licence (A6).")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Where its source is published (A6).")] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Record the address of a submission's published source, or its licence, if it was wrong or missing (A6).

    `sparring correct`, the former name, works too.
    """
    with seasons.administer(folder, by) as admin:
        warnings = admin.correct_release(submission, reason, licence=licence, source=source)
    document = {"corrected": submission, "licence": licence, "source": source, "reason": reason}
    console.print_fields(document | ({"warnings": warnings} if as_json else {}), as_json=as_json)
    for warning in () if as_json else warnings:
        console.print_warning(warning)


@console.command
def promote(
    folder: ContestDir,
    task: OnlyTask = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why you promote again after the final round has begun.")
    ] = "",
    by: By = None,
    as_json: Json = False,
) -> None:
    """Promote submissions to the final round, from the leaderboards of the initial one (A4, A11, A12, A16)."""
    with seasons.administer(folder, by) as admin:
        promoted = promotion.promote(admin, task, reason)
        warnings = promotion.promotion_warnings(admin, promoted)
    if as_json:
        documents = {name: _promotion_document(event) for name, event in promoted.items()}
        console.print_json({name: document | {"warnings": warnings[name]} for name, document in documents.items()})
        return
    for name, event in promoted.items():
        for part, text in event.summary().items():
            out.print(f"{safe_text(name)}: {safe_text(part)} {safe_text(text, 2000)}", soft_wrap=True)
    for warning in (each for some in warnings.values() for each in some):
        console.print_warning(warning, err)


@console.command
def board(
    folder: Annotated[Path | None, typer.Argument(help="The contest's folder.", metavar="DIR")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="The site of a contest instead of DIR: https://cup.example.org.")
    ] = None,
    phase: Annotated[str | None, typer.Option("--round", help="The round; default: the latest played.")] = None,
    task: OnlyTask = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of", formats=["%Y-%m-%d"], help="The standing of an unrestricted contest at the end of this day."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the leaderboards of a contest, task by task: of a folder, or what everybody may see of a site.

    For an unrestricted contest, show its standing; --round shows the answers of a week.
    """
    # Other commands of this module start faster without these.
    from orchestrator.application.contests.unrestricted_contest import unrestricted_rules  # noqa: PLC0415
    from orchestrator.cli import unrestricted_boards  # noqa: PLC0415

    if (folder is None) == (source is None):
        raise UsageError("give either DIR or --from")
    if as_of is not None:
        if folder is None or phase is not None or task is not None:
            raise UsageError("--as-of shows the standing of a contest in DIR; leave --from, --round and --task out")
        unrestricted_boards.print_standing(folder, as_of.date(), as_json=as_json)
        return
    if folder is None:
        remote.print_boards(source or "", phase, task, as_json=as_json)
        return
    with seasons.administer(folder) as admin:
        head_line = f"head     {admin.head}, entry {admin.entry_count} of the contest's ledger: publish it, or keep it"
        nothing = report_writer.nothing_played(admin)
        stands = phase is None and task is None and unrestricted_rules(admin.contest) is not None
        results = [] if stands else season_rounds.latest_results(admin, phase, task)
    if stands:
        unrestricted_boards.print_standing(folder, as_json=as_json)
    elif results:
        results_output.print_season(results, as_json=as_json)
    else:
        raise nothing
    if not as_json:
        out.print(head_line, soft_wrap=True)


@console.command
def rescore(
    folder: ContestDir,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the rules in contest.yaml from now on.")] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Record that you looked at the change and did not make it.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, for the ledger; required to apply or drop.")
    ] = "",
    task: OnlyTask = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Show what every leaderboard becomes under the rules in contest.yaml as it is now; nothing is played again.

    `sparring rejudge`, the former name, works too.
    """
    if apply and drop:
        raise UsageError("--apply and --drop: choose one")
    if (apply or drop) and not reason:
        raise UsageError("say why: --reason")
    if not (apply or drop):
        console.refuse_ignored({"--reason": reason}, "it is for --apply or --drop; add one of them, or leave it out")
    with seasons.administer(folder, by) as admin:
        rescored_rounds = rescoring.rescore(admin, task)
        changed = bool(rescoring.changed_rules(admin))
        if apply or drop:
            rescoring.record_decision(admin, reason, apply=apply)
    if as_json:
        console.print_json([results_output.rescored_document(round_) for round_ in rescored_rounds])
        return
    for round_ in rescored_rounds:
        results_output.print_rescored(round_)
    if not (apply or drop):
        out.print(
            "nothing is changed yet: run it again with --apply or --drop, and --reason"
            if changed
            else "the rules in contest.yaml are those in force: there is nothing to apply"
        )


def _promotion_document(found: FormatEvent) -> dict[str, object]:
    return found.model_dump(mode="json", exclude={"kind", "actor", "task", "reason"})
