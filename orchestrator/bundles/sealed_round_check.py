"""Checks one round of a sealed bundle."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from orchestrator import redaction
from orchestrator.bundles import chain, comparison, encoding
from orchestrator.bundles.bundle_records import SealedRoundView
from orchestrator.bundles.layout import CELLS, LEDGER, PICTURES, RESULTS, ROUND, RoundPart
from orchestrator.bundles.reader import Bundle, parse_model
from orchestrator.bundles.round_checks import (
    CheckCounts,
    RulesResolver,
    check_end,
    check_opened,
    check_roster,
    resolve_checked_rules,
    untrusted,
)
from orchestrator.bundles.sealed_lists import (
    MAX_PICTURES,
    SealedRound,
    measurements_in,
    sealed_round_view,
    with_measurements,
)
from orchestrator.domain.ids import Digest
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster, Side
from orchestrator.errors import NotGenuine
from orchestrator.scoring.results_file import Results
from orchestrator.scoring.round_scoring import RoundScoring


class _PictureLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    commitment: Digest


class _CellLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    defence: str
    attack: str | None
    calls: Annotated[str, Field(pattern=r"^[hfanx-]*$", max_length=MAX_PICTURES)]


def check_sealed_round(
    bundle: Bundle, part: RoundPart, season: Season, resolve_rules: RulesResolver
) -> tuple[SealedRoundView, CheckCounts]:
    """Checks a round, and returns its record with the counts. Raises NotGenuine at the first failed check."""
    entries = read_ledger(bundle, part)
    record, pictures, cells = read_round(bundle, part, entries, season)
    stated = read_stated_results(bundle, part)
    place = f"{part.folder}/{RESULTS}"
    with untrusted(place):
        recounted = recount_results(record, part, resolve_rules, season)
        if cells and record.round.opening and resolve_rules(season, record.round.opening)[0].withholds_outcomes:
            raise NotGenuine(
                f"{part.folder}/{CELLS}", "tells what became of single pictures, which this format withholds"
            )
        measured = measurements_in(stated)
        if [one.id for one in stated.submissions] != [one.id for one in recounted.submissions]:
            raise NotGenuine(f"{place} submissions", "are not those whom the ledger admitted")
        # Sealed lists have no queries: the stated numbers are used, and checked when a full bundle opens this one.
        recounted = recounted.model_copy(update={"queries": stated.queries})
        body = with_measurements(recounted, measured).model_dump(mode="json")
    comparison.check_equal(place, bundle.read_document(place), body)
    withheld = sum(entry.event is None for entry in entries)
    return record, CheckCounts(len(entries), withheld, len(pictures), cells, comparison.count_numbers(body))


def read_ledger(bundle: Bundle, part: RoundPart) -> list[chain.ChainEntry]:
    """Reads and checks the entries of a round's ledger."""
    name = f"{part.folder}/{LEDGER}"
    with bundle.open_file(name) as file:
        entries = list(chain.read_chain(file, name, redaction.redact_sealed_event))
    check_end(entries, part, name)
    return entries


def read_round(
    bundle: Bundle, part: RoundPart, entries: list[chain.ChainEntry], season: Season
) -> tuple[SealedRoundView, list[_PictureLine], int]:
    """Returns the record from a round's files, its pictures' commitments, and the number of its cells."""
    name = f"{part.folder}/{ROUND}"
    sealed = parse_model(SealedRound, bundle.read_document(name), name)
    file = check_opened(sealed.opened, part, f"{name} opened")
    if sealed.model_dump(mode="json", exclude_unset=True) != bundle.read_document(name):
        raise NotGenuine(name, "is not written as this software writes it")
    pictures = list(_read_pictures(bundle, part))
    if len(pictures) != sealed.opened.task.count or not pictures:
        raise NotGenuine(f"{part.folder}/{PICTURES}", f"has {len(pictures)} pictures of {sealed.opened.task.count}")
    disclosed_events = [entry.event for entry in entries if entry.event is not None]
    roster = sealed_round_view(sealed, disclosed_events, {}, len(pictures)).round.roster
    check_roster(roster, season, file, f"{part.folder}/{LEDGER}")
    calls = dict(_read_cells(bundle, part, len(pictures), roster))
    record = sealed_round_view(sealed, disclosed_events, calls, len(pictures))
    _check_attacks(sealed, record, calls, f"{name} attacks", len(pictures))
    return record, pictures, len(calls)


def recount_results(record: SealedRoundView, part: RoundPart, resolve_rules: RulesResolver, season: Season) -> Results:
    """Returns the results recomputed from a sealed round's files, without measured fields."""
    opening = record.round.opening
    if opening is None:
        raise ValueError("no round was opened")
    contest_format, standings = resolve_checked_rules(resolve_rules, season, opening)
    return RoundScoring(record, contest_format, standings).results(part.head)


def read_stated_results(bundle: Bundle, part: RoundPart) -> Results:
    """Returns the stated results. Raises NotGenuine if they are not in the form that this software writes."""
    name = f"{part.folder}/{RESULTS}"
    value = bundle.read_document(name)
    stated = parse_model(Results, value, name)
    comparison.check_equal(name, value, stated.model_dump(mode="json"))
    return stated


def _read_pictures(bundle: Bundle, part: RoundPart) -> Iterator[_PictureLine]:
    name, before = f"{part.folder}/{PICTURES}", ""
    with bundle.open_file(name) as file:
        for place, value in encoding.decode_lines(file, name):
            line = parse_model(_PictureLine, value, place)
            if line.id <= before:
                raise NotGenuine(place, f"{line.id} does not come after the id before")
            before = line.id
            yield line


def _read_cells(bundle: Bundle, part: RoundPart, count: int, roster: Roster) -> Iterator[tuple[Cell, str]]:
    name, before = f"{part.folder}/{CELLS}", ("", "")
    attacks, defences = ({each.id for each in roster.by_side(side)} for side in (Side.ATTACK, Side.DEFENCE))
    with bundle.open_file(name) as file:
        for place, value in encoding.decode_lines(file, name):
            line = parse_model(_CellLine, value, place)
            key = (line.defence, line.attack or "")
            if line.defence not in defences or (line.attack is not None and line.attack not in attacks):
                raise NotGenuine(place, "is a cell of somebody whom the ledger did not admit")
            if key <= before:
                raise NotGenuine(place, "does not come after the cell before")
            if len(line.calls) != count:
                raise NotGenuine(place, f"has {len(line.calls)} calls for {count} pictures")
            before = key
            yield Cell(line.defence, line.attack), line.calls


def _check_attacks(sealed: SealedRound, record: SealedRoundView, calls: Iterable[Cell], place: str, count: int) -> None:
    roster = record.round.roster
    attacks = [part.attack for part in sealed.attacks if not part.defence]
    admitted = [attack.id for attack in roster.by_side(Side.ATTACK)]
    if attacks != [attack for attack in admitted if attack in attacks]:
        raise NotGenuine(place, "are not those whom the ledger admitted, each once, in its order")
    pairs = [(part.attack, part.defence) for part in sealed.attacks if part.defence]
    defences = {defence.id for defence in roster.by_side(Side.DEFENCE)}
    if pairs != sorted({pair for pair in pairs if pair[0] in admitted and pair[1] in defences}):
        raise NotGenuine(place, "are not pairs whom the ledger admitted, each once, in order")
    for part in sealed.attacks:
        if not part.counts().is_possible(count):
            raise NotGenuine(f"{place} {part.attack}", "has counts that no attack can have")
    for cell in calls:
        if cell.attack is not None and cell.attack not in attacks and (cell.attack, cell.defence) not in pairs:
            raise NotGenuine(place, f"have no {cell.attack}, whose pictures were answered")
