"""The ledgers of a bundle: each entry is shown in full, or withheld and only its leaf is shown."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.bundles import encoding
from orchestrator.domain.events import Event
from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.ids import Digest, canonical_json
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine, UsageError
from orchestrator.ledger.event_registry import parse_event
from orchestrator.ledger.stores.base import GENESIS, TIME_PATTERN, LedgerEntry, entry_hash, leaf_hash

RedactEvent = Callable[[Event], dict[str, Any] | None]
"""Returns the public part of a withheld event, {} to show only its leaf; None if the event is shown in full."""


class _LedgerLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    seq: Annotated[int, Field(ge=1)]
    hash: Digest


class _FullLine(_LedgerLine):
    time: Annotated[str, Field(pattern=f"^{TIME_PATTERN}$")]
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    event: dict[str, Any]


class _RedactedLine(_LedgerLine):
    leaf: Digest
    public: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One entry of a verified chain. If `event` is None, it is withheld, and `public` is its public part."""

    seq: int
    leaf: str
    hash: str
    time: str
    event: Event | None
    public: dict[str, Any]


def encode_ledger(entries: Iterable[LedgerEntry], public: RedactEvent) -> bytes:
    """Returns a ledger's entries in the form of bundles."""
    return encoding.encode_lines(_ledger_line(entry, public(entry.event)) for entry in entries)


def _ledger_line(entry: LedgerEntry, public: dict[str, Any] | None) -> dict[str, Any]:
    if public is None:
        event = entry.event.model_dump(mode="json")
        return {"seq": entry.seq, "hash": entry.hash, "time": entry.time, "salt": entry.salt, "event": event}
    return {"seq": entry.seq, "hash": entry.hash, "leaf": entry.leaf} | ({"public": public} if public else {})


def read_chain(file: BinaryIO, name: str, public: RedactEvent) -> Iterator[ChainEntry]:
    """Yields the entries of a ledger in a bundle, and verifies each with the one before it.

    Raises:
        NotGenuine: at the first entry that does not continue the chain, is not an event, has a time before that of an
            earlier entry, or is shown although `public` withholds it.
    """
    previous, latest = GENESIS, ""
    for number, (place, value) in enumerate(encoding.decode_lines(file, name), start=1):
        where = place.replace(" line ", " entry ")
        entry = _chain_entry(value, where, previous)
        if entry.seq != number:
            raise NotGenuine(where, f"has the number {entry.seq}")
        if entry.event is not None and public(entry.event) is not None:
            raise NotGenuine(where, f"shows a {entry.event.kind} event, which such a bundle withholds")
        if entry.event is not None and entry.time < latest:
            raise NotGenuine(
                where, f"is of {entry.time}, and an entry before it of {latest}: times never run backwards"
            )
        yield entry
        previous, latest = entry.hash, entry.time or latest


def _chain_entry(value: Any, where: str, previous: str) -> ChainEntry:
    withheld = isinstance(value, dict) and "leaf" in value
    try:
        if withheld:
            closed = _RedactedLine.model_validate(value)
            leaf, event, time, public = closed.leaf, None, "", closed.public
        else:
            line = _FullLine.model_validate(value)
            event, time, public = parse_event(line.event), line.time, {}
            text = canonical_json(line.event)
            if canonical_json(event.model_dump(mode="json")) != text:
                raise NotGenuine(where, "does not write its event as this software does")
            leaf = leaf_hash(line.seq, line.time, line.salt, text)
    except UsageError as error:
        raise NotGenuine(where, str(error)) from None
    except ValidationError as error:
        problem = field_errors(error)[0].problem()
        raise NotGenuine(where, f"is no entry of a ledger: {problem.place}: {problem.what}") from None
    except ValueError as error:  # a number that canonical JSON does not have
        raise NotGenuine(where, f"is no entry of a ledger: {printable(str(error), 120)}") from None
    seq, stated = value["seq"], value["hash"]
    if entry_hash(previous, leaf) != stated:
        raise NotGenuine(where, "does not continue the chain: its hash is another")
    return ChainEntry(seq, leaf, stated, time, event, public)
