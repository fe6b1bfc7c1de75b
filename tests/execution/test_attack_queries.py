"""An attack that asks while it is asked: its time stands still while others have the move, and only then."""

import numpy as np
import pytest

from orchestrator.domain.tasks import Limits
from orchestrator.errors import DeadlinePassed, OutputFlood, PlayerDied
from orchestrator.execution.player import GRACE_SECONDS, Player
from orchestrator.protocol import frames
from orchestrator.protocol.messages import QueriesHeader, Refusal, Role, Want
from orchestrator.protocol.session import QueryReply, Session

from .conftest import ScriptedSandbox

LIMITS = Limits(perturb_seconds=4.0, perturb_batch=1)
PIXELS = np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2)
QUERY = {"type": "query", "id": 1, "dtype": "u8", "shape": [1, 1, 2, 2], "want": "decision", "for": [0]}
CANDIDATES = {"type": "candidates", "id": 1, "dtype": "u8", "shape": [1, 1, 2, 2], "index": [0]}


class Clock:
    """Time that passes when somebody says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Returns the seconds."""
        return self.now


class Attack:
    """Asks so many times, thinks for some seconds before each message, and delivers."""

    def __init__(self, clock: Clock, queries: int, thinks: float) -> None:
        self.clock, self.queries, self.thinks = clock, queries, thinks
        self.replies: list[dict] = []
        self.session = Session(
            Role.ATTACK, 10, 4096, queries=QueriesHeader(per_picture=100, batch=1, prices={Want.DECISION: 1})
        )
        self.session._capabilities = frozenset()  # it said hello
        self.player = Player(ScriptedSandbox(self.play, lambda _: None), self.session, clock, lambda: False)

    def play(self, header: dict, payload: bytes) -> bytes:
        """Answers what it is told."""
        del payload
        self.replies += [header] if header["type"] == "reply" else []
        self.clock.now += self.thinks
        if len(self.replies) < self.queries:
            return frames.encode_frame(QUERY, bytes(4))
        return frames.encode_frame(CANDIDATES, bytes(4))

    def perturb(self, takes: float) -> list[tuple[int, ...]]:
        """Returns what it delivers where each answer takes so many seconds."""

        def answer(query) -> QueryReply:
            assert (query.want, query.positions) == (Want.DECISION, (0,))
            self.clock.now += takes
            return QueryReply([5], labels=[3])

        return [reply.index for reply in self.player.perturb(PIXELS, None, LIMITS, answer)]


def test_time_stands_still_while_the_defence_has_the_move() -> None:
    """Three answers of a hundred seconds each cost an attack nothing of its four; they are counted apart."""
    attack = Attack(Clock(), queries=3, thinks=0.9)
    assert attack.perturb(takes=100.0) == [(0,)]
    assert [reply["labels"] for reply in attack.replies] == [[3]] * 3
    assert attack.player.paused_seconds == pytest.approx(300.0)


@pytest.mark.parametrize("queries", [1, 7])
def test_an_attacks_own_time_is_bounded_however_often_it_asks(queries) -> None:
    """What it thinks between its queries adds up; a query after the deadline is not answered."""
    attack = Attack(Clock(), queries, thinks=(LIMITS.perturb_seconds + GRACE_SECONDS) / queries + 0.01)
    with pytest.raises(DeadlinePassed):
        attack.perturb(takes=0.0)
    assert len(attack.replies) < queries


def test_an_answer_that_is_not_read_is_the_attacks() -> None:
    """It asked, and takes nothing in: its deadline passes, by its own clock."""
    attack = Attack(Clock(), queries=1, thinks=0.0)
    taken = []
    send = attack.player._sandbox.send

    def deaf(data, deadline, cancelled=None) -> bool:
        taken.append(deadline - attack.clock.now)
        return len(taken) == 1 and send(data, deadline)

    attack.player._sandbox.send = deaf
    with pytest.raises(DeadlinePassed, match="did not read the answer to its query"):
        attack.perturb(takes=50.0)
    assert taken[1] == pytest.approx(LIMITS.perturb_seconds)


def test_time_does_not_stand_still_for_what_is_refused() -> None:
    """The defence has no move then: whoever asks on and on is over in its own time, wherever replies wait for a grid.

    Otherwise a grid of replies would let an attack that may ask nothing more keep the round from its end.
    """
    attack = Attack(Clock(), queries=1000, thinks=0.0)

    def refuse(query) -> QueryReply:
        del query
        attack.clock.now += 1.0
        return QueryReply([0], refused=Refusal.BUDGET)

    with pytest.raises(DeadlinePassed):
        list(attack.player.perturb(PIXELS, None, LIMITS, refuse))
    assert attack.clock.now - 100.0 <= LIMITS.perturb_seconds + GRACE_SECONDS + 1.0
    assert attack.player.paused_seconds == 0


def test_what_it_writes_before_the_reply_is_a_flood_however_it_arrives() -> None:
    """A second query that comes while the first is answered is not taken for one that waited."""
    attack = Attack(Clock(), queries=3, thinks=0.0)
    answered = []

    def answer(query) -> QueryReply:
        answered.append(query)
        attack.player._sandbox._out.append(frames.encode_frame(QUERY, bytes(4)))
        return QueryReply([5], labels=[3])

    with pytest.raises(OutputFlood):
        list(attack.player.perturb(PIXELS, None, LIMITS, answer))
    assert len(answered) == 1


def test_an_attack_that_died_while_it_waited_died() -> None:
    """Its end is noticed before the answer is sent to nobody."""
    attack = Attack(Clock(), queries=3, thinks=0.0)

    def answer(query) -> QueryReply:
        del query
        attack.player._sandbox._over = True
        return QueryReply([5], labels=[3])

    with pytest.raises(PlayerDied):
        list(attack.player.perturb(PIXELS, None, LIMITS, answer))
    assert not attack.replies
