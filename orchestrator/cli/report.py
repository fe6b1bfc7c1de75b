"""`sparring report`, and the output of the paths of results."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import report_writer
from orchestrator.application.rounds.round_record import ReportPaths
from orchestrator.cli import console
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder


@console.command
def report(
    folder: Annotated[
        Path, typer.Argument(help="The --out folder of `sparring round run`, or a contest's folder.", metavar="DIR")
    ],
    with_parquet: Annotated[
        bool, typer.Option("--parquet", help="Write the site's tables as Parquet too; needs sparring[parquet].")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write results.json, cells.csv and the organizers' report again, and a site for everybody, from the ledger alone.

    For a contest's folder this is done for every round of every task. DIR/site may be put on the web; DIR/teams has a
    page for each team alone.
    """
    if ContestFolder(folder).exists:
        from orchestrator.application.contests import seasons  # noqa: PLC0415  not needed for a single round

        with seasons.administer(folder) as admin:
            written = report_writer.write_contest_report(admin, with_parquet=with_parquet)
        if as_json:
            console.print_json([reported.results.model_dump(mode="json") for reported in written.rounds])
            return
    else:
        written = report_writer.write_round_report(RoundFolder(folder), with_parquet=with_parquet)
        if as_json:
            console.print_json(written.rounds[0].results.model_dump(mode="json"))
            return
    for reported in written.rounds:
        print_paths(reported)
    out.print(f"site     {safe_text(str(written.site / 'index.html'))}: may be put on the web", soft_wrap=True)
    out.print(f"teams    {safe_text(str(written.teams))}: a page for each team alone", soft_wrap=True)


def print_paths(reported: ReportPaths) -> None:
    """Prints the paths of the written results."""
    out.print(f"results  {safe_text(str(reported.results_file))}", soft_wrap=True)
    out.print(f"cells    {safe_text(str(reported.cells_file))}", soft_wrap=True)
    out.print(f"report   {safe_text(str(reported.report_file))}", soft_wrap=True)
