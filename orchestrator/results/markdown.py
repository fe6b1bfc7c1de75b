"""`report.md`: boards, matrix and findings as Markdown, for places where a page of HTML cannot go.

Text of submissions is escaped so that no reader of Markdown makes a tag, a link, a heading or another cell of it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.results.document import BoardPart, CellPart, Results, RowPart
from orchestrator.results.report import chosen, evidence, words
from orchestrator.results.report.matrix import MOST

_ENTITIES: Final = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", ":": "&#58;"}
"""What a backslash does not disarm everywhere: cells of tables, tags, and addresses that become links."""
_SPECIAL: Final = re.compile(r"[|<>&@\\`*_\[\]#~$]|:(?=/)|(?<=www)\.", re.IGNORECASE)
"""Marks that mean something inside a line. None of these texts begins one."""


def render(rounds: Sequence[Results]) -> str:
    """Returns the text; `rounds` are as everybody may see them, of one contest."""
    lines = [f"# {escaped(rounds[0].title)}", ""]
    for results in rounds:
        task = results.task
        lines += [f"## {escaped(task.name)}, {escaped(results.round)} round", ""]
        lines += [f"{words.count(task.pictures, 'picture')}, budget {words.budget(task.norm, task.epsilon)}.", ""]
        waiting = [f"{part.submission} waits for another run ({part.code})." for part in results.waiting]
        lines += [line for alarm in (*results.alarms, *waiting) for line in (f"> **{escaped(alarm)}**", "")]
        notes = [*results.notes, *([] if results.complete else ["Not complete: every board is provisional."])]
        lines += [line for note in notes for line in (f"> Note: {escaped(note)}", "")]
        for board in results.boards:
            lines += _board(board, results)
        lines += _findings(results) + _matrix(results)
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Returns a text as Markdown that reads as it stands, in one line."""
    return _SPECIAL.sub(_disarmed, printable(text)) or "&nbsp;"


def _disarmed(found: re.Match[str]) -> str:
    return _ENTITIES.get(found[0]) or "\\" + found[0]


def _board(board: BoardPart, results: Results) -> list[str]:
    teams = {part.id: part.team for part in results.submissions}
    better = "more is better" if board.more_is_better else "less is better"
    rules = f" ({', '.join(board.rules)})" if board.rules else ""
    return [
        f"### {escaped(board.title)}",
        "",
        f"Score: {escaped(board.measure)}, in {escaped(board.unit)}, {better}{rules}.",
        "",
        *_table(
            ("Rank", "Could be", "Submission", "Team", "Score", "95 %", "Violations", "Place", "Remarks"),
            (_row(row, teams.get(row.submission, "")) for row in board.rows),
        ),
    ]


def _row(row: RowPart, team: str) -> tuple[str, ...]:
    remarks = [row.reason, f"no prize: {row.no_prize}" if row.no_prize else ""]
    return (
        str(row.rank or ""),
        f"{row.ranks[0]} to {row.ranks[1]}" if row.ranks and row.ranks[0] != row.ranks[1] else "",
        escaped(row.submission),
        escaped(team),
        "" if row.score is None else words.signed(row.score, 2),
        "" if row.interval is None else " to ".join(map(words.signed, row.interval)),
        f"{row.violations:,}",
        str(row.place or ""),
        escaped("; ".join(filter(None, remarks))) if any(remarks) else "",
    )


def _findings(results: Results) -> list[str]:
    if not results.findings:
        return []
    sides = {part.id: part.side.value for part in results.submissions}
    lines = [
        f"- Against {escaped(found.submission)} ({', '.join(found.rules)}): "
        f"{escaped(evidence.meaning(found.kind, sides.get(found.submission, '')))} {escaped(found.summary)}"
        for found in results.findings
    ]
    return ["### Findings", "", *lines, ""]


def _matrix(results: Results) -> list[str]:
    """Returns accuracy in percent, and the points lost against clean pictures."""
    cells = {(cell.defence, cell.attack): cell for cell in results.cells}
    attacks = [part.id for part in chosen.members(results, Side.ATTACK, MOST)[0]]
    defences = [part.id for part in chosen.members(results, Side.DEFENCE, MOST)[0]]
    rows = (
        (escaped(defence), *(_square(cells.get((defence, attack))) for attack in (None, *attacks)))
        for defence in defences
    )
    left_out = chosen.told(results, MOST)
    return [
        "### Matrix",
        "",
        "Accuracy of each defence, and in brackets the points that it lost to the attack.",
        "",
        *([left_out, ""] if left_out else []),
        *_table(("Defence", "clean pictures", *map(escaped, attacks)), rows),
    ]


def _square(cell: CellPart | None) -> str:
    if cell is None:
        return ""
    accuracy = words.percent(cell.held, cell.total)
    return accuracy if cell.delta is None else f"{accuracy} ({words.signed(cell.delta)})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows), ""]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
