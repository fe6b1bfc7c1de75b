"""Board members' conflicts that follow from mail addresses, which are in no ledger (U8)."""

from orchestrator.application.contests import review_board_conflicts
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.formats.unrestricted.due_events import ACTOR
from orchestrator.web.contest_site import ContestSite
from orchestrator.web.models import Account


def record_organization_conflicts(site: ContestSite, contest: UnrestrictedContest) -> None:
    """Records the conflicts that follow from mail addresses and are not in the ledger yet.

    Call it before a board member sees a case or gets a mail about one. Raises StoreFault, Busy.
    """
    addresses = dict(Account.objects.filter(is_active=True).values_list("person", "email"))
    review_board_conflicts.record_organization_conflicts(contest, addresses, ACTOR, site.clock)
