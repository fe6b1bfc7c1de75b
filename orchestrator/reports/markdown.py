"""Writes `report.md`: boards, matrix and findings as Markdown, for places that take no HTML.

Texts of submissions are escaped so that no Markdown renderer turns them into a tag, a link, a heading or another cell.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from orchestrator.domain.text import printable
from orchestrator.reports import evidence, formatting
from orchestrator.reports.blocks import report_blocks
from orchestrator.scoring.results_file import LeaderboardPart, Results, RowPart, ValuePart

_ENTITIES: Final = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", ":": "&#58;"}
"""Characters that a backslash does not escape everywhere: in table cells, tags, and addresses that become links."""
_SPECIAL_MARKS: Final = re.compile(r"[|<>&@\\`*_\[\]#~$]|:(?=/)|(?<=www)\.", re.IGNORECASE)
"""Characters with a meaning inside a line. None of the escaped texts begins a line."""


def render_markdown(rounds: Sequence[Results]) -> str:
    """Returns the text of the file; `rounds` are the redacted results of one contest."""
    lines = [f"# {escape_markdown(rounds[0].title)}", ""]
    for results in rounds:
        task = results.task
        lines += [f"## {escape_markdown(task.name)}, {escape_markdown(results.round)} round", ""]
        budget = formatting.budget(task.norm, task.epsilon)
        lines += [f"{formatting.counted_noun(task.pictures, 'picture')}, budget {budget}.", ""]
        waiting = [f"{part.submission} waits for another run ({part.code})." for part in results.waiting]
        lines += [line for alarm in (*results.alarms, *waiting) for line in (f"> **{escape_markdown(alarm)}**", "")]
        notes = [*results.notes, *([] if results.complete else ["Not complete: every board is provisional."])]
        lines += [line for note in notes for line in (f"> Note: {escape_markdown(note)}", "")]
        for board in results.boards:
            lines += _leaderboard_lines(board, results)
        lines += [*_finding_lines(results), *report_blocks(results.format).markdown_sections(results)]
    return "\n".join(lines).rstrip("\n") + "\n"


def escape_markdown(text: str) -> str:
    """Returns a text as one line of Markdown that is rendered literally."""
    return _SPECIAL_MARKS.sub(_escape_match, printable(text)) or "&nbsp;"


def _escape_match(found: re.Match[str]) -> str:
    return _ENTITIES.get(found[0]) or "\\" + found[0]


def _leaderboard_lines(board: LeaderboardPart, results: Results) -> list[str]:
    teams = {part.id: part.team for part in results.submissions}
    better = "more is better" if board.more_is_better else "less is better"
    titles = [escape_markdown(column.title) for column in board.columns]
    rules = f" ({', '.join(board.rules)})" if board.rules else ""
    return [
        f"### {escape_markdown(board.title)}",
        "",
        f"Score: {escape_markdown(board.measure)}, in {escape_markdown(board.unit)}, {better}{rules}.",
        "",
        *table_lines(
            ("Rank", "Could be", "Submission", "Team", "Score", "95 %", *titles, "Place", "Remarks"),
            (_leaderboard_row(row, board, teams.get(row.submission, "")) for row in board.rows),
        ),
    ]


def _leaderboard_row(row: RowPart, board: LeaderboardPart, team: str) -> tuple[str, ...]:
    remarks = [row.reason, row.remark, f"no prize: {row.no_prize}" if row.no_prize else ""]
    return (
        str(row.rank or ""),
        f"{row.ranks[0]} to {row.ranks[1]}" if row.ranks and row.ranks[0] != row.ranks[1] else "",
        escape_markdown(row.submission),
        escape_markdown(team),
        "" if row.score is None else formatting.signed(row.score, 2),
        "" if row.interval is None else " to ".join(map(formatting.signed, row.interval)),
        *(_value_text(row.values.get(column.name), column.unit) for column in board.columns),
        str(row.prize_rank or ""),
        escape_markdown("; ".join(filter(None, remarks))) if any(remarks) else "",
    )


def _value_text(part: ValuePart | None, unit: str) -> str:
    if part is None:
        return ""
    digits = 1 if unit else 3
    limits = [formatting.signed(limit, digits) for limit in part.interval or ()]
    return formatting.number(part.value, unit) + (f" ({' to '.join(limits)})" if limits else "")


def _finding_lines(results: Results) -> list[str]:
    if not results.findings:
        return []
    sides = {part.id: part.side.value for part in results.submissions}
    lines = [
        f"- Against {escape_markdown(found.submission)} ({', '.join(found.rules)}): "
        f"{escape_markdown(evidence.finding_text(found.kind, sides.get(found.submission, '')))} "
        f"{escape_markdown(found.summary)}"
        for found in results.findings
    ]
    return ["### Findings", "", *lines, ""]


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table. The caller has escaped its texts."""
    return [_table_line(head), _table_line(["---"] * len(head)), *map(_table_line, rows), ""]


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
