"""Money of the unrestricted contest: amounts, how they are split, and accounts (rule U10).

An amount is a whole number of the smallest units of its currency, such as cents, and never a float. No unit is lost by
rounding: a published rule says who gets the units that a split leaves over. Money only moves from one account to
another, so the balances of all accounts together are always 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from orchestrator.domain.field_errors import show_value
from orchestrator.domain.text import printable
from orchestrator.errors import Problem

MAX_UNITS = 2**53 - 1
"""The largest amount: larger integers are not exact in RFC 8785 JSON, which ledgers are hashed in."""
NOTE_LIMIT = 200
"""The longest reference of a payment, in characters."""
REASON_LIMIT = 2000
"""The longest reason that the board publishes, in characters."""

_TWO_DECIMALS = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP
    CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES
    KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK
    NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB
    TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG
"""
_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"
EXPONENTS: Mapping[str, int] = MappingProxyType(
    {
        code: exponent
        for exponent, codes in ((2, _TWO_DECIMALS), (0, _NO_DECIMALS), (3, _THREE_DECIMALS))
        for code in codes.split()
    }
)
"""Currency -> how many decimals it has: ISO 4217, list one, as of 2026, without funds, metals and test codes.

SIX Group publishes the list for ISO: https://www.six-group.com/en/products-services/financial-information/data-standards.html
"""

_AMOUNT = re.compile(r"(?P<whole>0|[1-9][0-9]*)(?:\.(?P<decimals>[0-9]+))? (?P<currency>[A-Z]{3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Money:
    """An amount: a whole number of smallest units, and the currency by its ISO 4217 code.

    Raises:
        ValueError: the currency is unknown, or the units are no integer from 0 to `MAX_UNITS`. A float is no integer.
    """

    units: int
    currency: str

    def __post_init__(self) -> None:
        if self.currency not in EXPONENTS:
            raise ValueError(f"{printable(self.currency, 20)!r} is not a currency; write an ISO 4217 code such as EUR")
        if type(self.units) is not int or not 0 <= self.units <= MAX_UNITS:
            raise ValueError(
                f"{self.units!r} is not an amount; write a whole number of the currency's smallest units, "
                f"from 0 to {MAX_UNITS}"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the amount that a text such as `1000.50 EUR` states; whole amounts may leave the decimals out.

        Raises:
            ValueError: the text does not have this form, or has more or fewer decimals than its currency.
        """
        found = _AMOUNT.fullmatch(text)
        if found is None:
            raise ValueError(f"{printable(text, 40)!r} is not an amount; write it as in 1000.50 EUR")
        currency, decimals = found["currency"], found["decimals"]
        if (exponent := EXPONENTS.get(currency)) is None:
            raise ValueError(f"{currency} is not a currency; write an ISO 4217 code such as EUR")
        if decimals is not None and len(decimals) != exponent:
            example = format_units(10**exponent, currency)
            raise ValueError(f"{printable(text, 40)}: {currency} has {exponent} decimals; write it as in {example}")
        if len(found["whole"]) > len(str(MAX_UNITS)):
            raise ValueError(f"{printable(text, 40)} is too large; write at most {format_units(MAX_UNITS, currency)}")
        return cls(int(found["whole"] + (decimals or "0" * exponent)), currency)

    def __str__(self) -> str:
        return format_units(self.units, self.currency)


def format_units(units: int, currency: str) -> str:
    """Returns a number of smallest units as people write it, such as `1000.50 EUR`. It may be negative."""
    whole, decimals = divmod(abs(units), 10 ** (exponent := EXPONENTS[currency]))
    text = f"{whole}.{decimals:0{exponent}}" if exponent else f"{whole}"
    return f"{'-' if units < 0 else ''}{text} {currency}"


def _read(value: object) -> Money:
    if isinstance(value, Money):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{show_value(value)} is not an amount; write it with its currency, as in 1000.50 EUR")  # noqa: TRY004  pydantic turns ValueError into a problem
    return Money.parse(value)


MoneyText = Annotated[
    Money,
    PlainValidator(_read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.[0-9]+)? [A-Z]{3}$"}),
]
"""An amount in a pydantic model: a text such as `1000.50 EUR` in files, `Money` in the program. Numbers are refused."""


SPLIT_RULE = (
    "An amount is split by the method of the largest remainder. Each share is computed as an exact fraction and "
    "rounded down to whole smallest units of the currency. The units that are left over go, one each, to the shares "
    "that lost most by the rounding. Where several lost the same, the one whose receipt is earliest comes first, then "
    "the one whose team's id comes first in the order of characters. The pool is halved; an odd unit goes to the "
    "attackers' half."
)
"""The published rule, which `split` and `halve` follow."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to a share of an amount.

    `key` names the claim. `receipt` is the place in the ledger of what the team submitted. Shares are proportional to
    `weight`.
    """

    key: str
    team: str
    receipt: int
    weight: Fraction = Fraction(1)


def split(amount: int, claims: Sequence[Claim]) -> dict[str, int]:
    """Returns what each claim gets, by its key; the sum is exactly `amount` (see `SPLIT_RULE`).

    Raises:
        ValueError: there is no claim, two have the same key, a weight is not positive, or the amount is negative.
    """
    if amount < 0 or not claims or len({claim.key for claim in claims}) < len(claims):
        raise ValueError(f"cannot split {amount} among {len(claims)} claims with different keys")
    if any(claim.weight <= 0 for claim in claims):
        raise ValueError("a claim needs a positive weight")
    total = sum((Fraction(claim.weight) for claim in claims), Fraction(0))
    exact = {claim.key: amount * Fraction(claim.weight) / total for claim in claims}
    shares = {key: int(share) for key, share in exact.items()}
    order = sorted(claims, key=lambda c: (shares[c.key] - exact[c.key], c.receipt, c.team, c.key))
    for claim in order[: amount - sum(shares.values())]:
        shares[claim.key] += 1
    return shares


def halve(pool: int) -> tuple[int, int]:
    """Returns the attackers' half of the pool and that of defenders, see `SPLIT_RULE`."""
    return pool - pool // 2, pool // 2


POOL = "pool"
ATTACKERS = "attackers"
DEFENDERS = "defenders"
OUTSIDE = "outside"
"""Organizers' funds and teams' bank accounts, which are outside of the contest. Only this account may be negative."""


def reserved(defence: str) -> str:
    """Returns the account of the prize that the board set aside for breaking a defence."""
    return f"reserved:{defence}"


def stake(defence: str) -> str:
    """Returns the account of the stake that a team paid for its defence."""
    return f"stake:{defence}"


def team_account(team: str) -> str:
    """Returns the account of what a team was awarded or gets back, and has not been paid."""
    return f"team:{team}"


class TransferKind(StrEnum):
    """Why money moves."""

    FUNDED = "funded"
    """The organizers put up the pool."""
    HALVED = "halved"
    """One half of the pool becomes the attackers' or the defenders'."""
    RESERVED = "reserved"
    """The board stakes a defence: its prize is set aside."""
    STAKE_PAID = "stake_paid"
    """A team stakes its own defence: its payment arrived."""
    STAKE_REFUNDED = "stake_refunded"
    """A team gets its stake back, because no team won the prize for breaking its defence."""
    RELEASED = "released"
    """No team won what was staked on a defence: it goes to the attackers' half."""
    BREAK_PRIZE = "break_prize"
    """A team is awarded its share for breaking a defence."""
    DEFENCE_PRIZE = "defence_prize"
    """A team is awarded its share because its defence held for a number of days."""
    WITHHELD = "withheld"
    """The board withholds a prize that was not paid: it goes back to the half that it came from."""
    PAID = "paid"
    """The organizers paid what a team was awarded or gets back."""
    RETURNED = "returned"
    """The contest is over: what is left of a half goes back to the organizers."""


_ROUTES: Mapping[TransferKind, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {
        TransferKind.FUNDED: (frozenset({OUTSIDE}), frozenset({POOL})),
        TransferKind.HALVED: (frozenset({POOL}), frozenset({ATTACKERS, DEFENDERS})),
        TransferKind.RESERVED: (frozenset({ATTACKERS}), frozenset({"reserved"})),
        TransferKind.STAKE_PAID: (frozenset({OUTSIDE}), frozenset({"stake"})),
        TransferKind.STAKE_REFUNDED: (frozenset({"stake"}), frozenset({"team"})),
        TransferKind.RELEASED: (frozenset({"reserved", "stake"}), frozenset({ATTACKERS})),
        TransferKind.BREAK_PRIZE: (frozenset({"reserved", "stake"}), frozenset({"team"})),
        TransferKind.DEFENCE_PRIZE: (frozenset({DEFENDERS}), frozenset({"team"})),
        TransferKind.WITHHELD: (frozenset({"team"}), frozenset({ATTACKERS, DEFENDERS})),
        TransferKind.PAID: (frozenset({"team"}), frozenset({OUTSIDE})),
        TransferKind.RETURNED: (frozenset({ATTACKERS, DEFENDERS}), frozenset({OUTSIDE})),
    }
)
"""Kind -> the types of accounts (an account's name before the colon) that it may move money from and to."""


_HALVES = {TransferKind.BREAK_PRIZE: ATTACKERS, TransferKind.DEFENCE_PRIZE: DEFENDERS}
"""The half that a withheld prize goes back to."""
_STAKES = (TransferKind.RESERVED, TransferKind.STAKE_PAID)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Money that moves from one account to another: two entries whose sum is 0. `amount` is in smallest units.

    `defence`, `team` and `days` say what the transfer is about, and are empty or 0 if it is about none. `award` is the
    id of the transfer that this one pays or withholds. `note` is the reference of a payment, the reason why a prize was
    withheld, or the number of a return of the same half, if it is not the first.
    """

    kind: TransferKind
    source: str
    target: str
    amount: int
    defence: str = ""
    team: str = ""
    days: int = 0
    award: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        """The transfer's id. Of two transfers with the same id only the first can be posted, so none happens twice."""
        about: tuple[str, ...] = {
            TransferKind.FUNDED: (),
            TransferKind.HALVED: (self.target,),
            TransferKind.RETURNED: (self.source, self.note or "1"),
            TransferKind.PAID: (self.award,),
            TransferKind.WITHHELD: (self.award,),
            TransferKind.DEFENCE_PRIZE: (str(self.days), self.defence),
            TransferKind.BREAK_PRIZE: (self.defence, self.team),
        }.get(self.kind, (self.defence,))
        return ":".join((self.kind, *about))

    @property
    def is_prize(self) -> bool:
        """Whether it awards a prize, which the board can withhold. A refund is the team's own money."""
        return self.kind in _HALVES

    def entries(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Returns both accounts, each with the amount by which its balance changes."""
        return (self.source, -self.amount), (self.target, self.amount)


def read_award(award: str) -> tuple[str, str]:
    """Returns the defence that an award or a refund is about, by the transfer's id, and what people call it.

    Of an id that is of neither, returns no defence and the id itself.
    """
    kind, _, about = award.partition(":")
    first, _, rest = about.partition(":")
    match kind:
        case TransferKind.DEFENCE_PRIZE:
            return rest, f"the prize of {rest} for {first} days"
        case TransferKind.BREAK_PRIZE:
            return first, f"the prize of {rest} for breaking {first}"
        case TransferKind.STAKE_REFUNDED:
            return about, f"the refund of the stake on {about}"
    return "", award


@dataclass(frozen=True, slots=True)
class Books:
    """The accounts of a contest after the transfers so far. They never change: `post` returns new books."""

    currency: str
    transfers: Mapping[str, Transfer] = field(default_factory=dict)
    """By their id, in the order in which they were posted."""
    balances: Mapping[str, int] = field(default_factory=dict)

    def balance(self, account: str) -> int:
        """Returns what an account holds, in smallest units."""
        return self.balances.get(account, 0)

    def is_withheld(self, award: str) -> bool:
        """Returns whether the board withheld the award with this id."""
        return f"{TransferKind.WITHHELD}:{award}" in self.transfers

    def is_paid(self, award: str) -> bool:
        """Returns whether the award or refund with this id was paid."""
        return f"{TransferKind.PAID}:{award}" in self.transfers

    def unpaid(self) -> list[Transfer]:
        """Returns the awards and refunds that teams are still owed, in their order."""
        return [
            transfer
            for id_, transfer in self.transfers.items()
            if _account_type(transfer.target) == "team" and not self.is_paid(id_) and not self.is_withheld(id_)
        ]

    def post(self, transfer: Transfer) -> "Books | Problem":
        """Returns the books after a transfer, or the problem for which it cannot be made."""
        if what := self._objection(transfer):
            return Problem(printable(transfer.id, NOTE_LIMIT), what, "see the statement of accounts")
        balances = dict(self.balances)
        for account, change in transfer.entries():
            balances[account] = balances.get(account, 0) + change
        return Books(self.currency, {**self.transfers, transfer.id: transfer}, balances)

    def post_all(self, transfers: Iterable[Transfer]) -> "Books | Problem":
        """Returns the books after all transfers, or the problem of the first one that cannot be made."""
        books = self
        for transfer in transfers:
            after = books.post(transfer)
            if isinstance(after, Problem):
                return after
            books = after
        return books

    def _objection(self, transfer: Transfer) -> str:
        """Returns what is wrong with a transfer; "" if nothing is."""
        if type(transfer.amount) is not int or not 0 < transfer.amount <= MAX_UNITS:
            return f"{transfer.amount!r} cannot be moved; the amount has to be a whole number of smallest units above 0"
        if transfer.id in self.transfers:
            return "this transfer was already made"
        if transfer.kind in _STAKES and any(f"{kind}:{transfer.defence}" in self.transfers for kind in _STAKES):
            return f"the defence {transfer.defence} is already staked"
        return _route_objection(transfer) or self._award_objection(transfer) or self._balance_objection(transfer)

    def _award_objection(self, transfer: Transfer) -> str:
        """Returns why a transfer cannot pay or withhold its award; "" if it can, or names no award."""
        if not transfer.award:
            return ""
        award = self.transfers.get(transfer.award)
        if award is None or _account_type(award.target) != "team":
            return f"there is no award {printable(transfer.award, NOTE_LIMIT)!r}"
        if self.is_paid(transfer.award) or self.is_withheld(transfer.award):
            return f"the award was already {'paid' if self.is_paid(transfer.award) else 'withheld'}"
        if (award.target, award.amount) != (transfer.source, transfer.amount):
            return f"the award is {format_units(award.amount, self.currency)} for {award.target}"
        if transfer.kind is TransferKind.WITHHELD and transfer.target != _HALVES.get(award.kind):
            return (
                f"a withheld {award.kind} cannot go to {transfer.target}: "
                "only prizes can be withheld, and each goes back to the half that it came from"
            )
        return ""

    def _balance_objection(self, transfer: Transfer) -> str:
        if transfer.source == OUTSIDE or (holds := self.balance(transfer.source)) >= transfer.amount:
            return ""
        needed = format_units(transfer.amount, self.currency)
        return f"the account {transfer.source} holds {format_units(holds, self.currency)}, and {needed} are needed"


def _account_type(account: str) -> str:
    return account.partition(":")[0]


def _route_objection(transfer: Transfer) -> str:
    """Returns why a transfer of its kind cannot move money between its accounts; "" if it can."""
    own = {
        "reserved": reserved(transfer.defence),
        "stake": stake(transfer.defence),
        "team": team_account(transfer.team),
    }
    sources, targets = ({own.get(name, name) for name in names} for names in _ROUTES[transfer.kind])
    if transfer.source not in sources or transfer.target not in targets:
        return f"a transfer of the kind {transfer.kind} cannot go from {transfer.source} to {transfer.target}"
    if bool(transfer.award) != (transfer.kind in (TransferKind.PAID, TransferKind.WITHHELD)):
        return "a transfer has to name an award if it pays or withholds one, and only then"
    return ""
