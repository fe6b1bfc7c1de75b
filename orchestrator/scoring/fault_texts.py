"""Descriptions of faults in our own words (rule A2). A submission's own words stay in the organizers' ledger."""

from collections.abc import Mapping

from orchestrator.domain.round import Round

FAULT_TEXTS: Mapping[str, str] = {
    "protocol": "What it said is not the image protocol; the reason says why.",
    "deadline": "No complete answer came before the deadline.",
    "died": "It ended before it answered.",
    "out-of-memory": "It, or a process that it had started, was killed at its memory limit.",
    "flood": "It wrote more than it was asked for.",
    "reported": "It sent a fault in place of a reply.",
    "no-gradients": "It gives no gradients, and the rules ask each defence for them.",
    "gave-up": "Its faults took too long, or its sandboxes did not get ready: nothing more was asked.",
}
"""A sentence for each code. A player cannot influence any character of it: it could encode hidden labels there."""
OTHER_FAULT_TEXT = "It failed."
FORFEIT_TEXTS: Mapping[str, str] = {
    "missing": "not delivered",
    "type": "not 8-bit values",
    "shape": "wrong shape",
    "not_finite": "not finite",
    "budget": "over the budget",
}
"""Why a candidate is forfeited, by `Forfeit.reason`."""


def fault_text(code: str) -> str:
    """Returns the description of faults with this code."""
    return FAULT_TEXTS.get(code, OTHER_FAULT_TEXT)


def forfeit_lines(reasons: Mapping[str, int] | None) -> list[str]:
    """Returns why candidates are forfeited, one line for each reason; empty if that was not counted."""
    return [f"{count:,} {FORFEIT_TEXTS[reason]}" for reason, count in (reasons or {}).items()]


def first_messages(round_: Round) -> dict[tuple[str, str, str], str]:
    """Returns the first recorded message for each submission, code and reason.

    Messages contain words of the player, so they are for organizers only.
    """
    messages: dict[tuple[str, str, str], str] = {}
    for job in round_.planned_jobs:
        for step in round_.steps.get(job.id, {}).values():
            for fault in step.faults:
                messages.setdefault((job.submission, fault.code, fault.reason), fault.message)
    return messages
