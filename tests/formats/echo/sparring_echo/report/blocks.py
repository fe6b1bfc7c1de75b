"""The blocks of echo."""

from collections.abc import Sequence

from sparring.plugins import Block, ReportBlocks, Results


class EchoBlocks(ReportBlocks):
    """Who is first."""

    def round_blocks(self, results: Results) -> Sequence[Block]:
        """Returns who is first this week."""
        first = [row.submission for board in results.boards for row in board.rows if row.rank == 1]
        return [Block("best", "Best of the week", "echo/best.html.j2", {"first": first}, on_index=True)]

    def markdown_sections(self, results: Results) -> Sequence[str]:
        """Returns a line."""
        return [f"Echo of {len(results.submissions)} programs.", ""]

    def terms(self) -> Sequence[tuple[str, str]]:
        """Returns the one word."""
        return [("Echo", "What comes back.")]
