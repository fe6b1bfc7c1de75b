"""What the page shows of findings and replays: evidence, how to see it again, and the power that was achieved (X3)."""

import pytest

from orchestrator import reports
from orchestrator.domain.findings import FindingKind
from orchestrator.reports import evidence

from .pages import Tree, parts, results_of


def test_findings_show_their_evidence():
    """The picture, what it was played against, both decisions in the task's words, and the margin claimed."""
    page = Tree(reports.render_round(results_of(), [])).words
    assert "square 17 abstained two 0.25" in page
    assert "90 comparisons, 1 disagreement shown." in page


def test_findings_are_said_in_sentences():
    """What was found follows the meaning of its kind as a sentence of its own."""
    results = results_of()
    (found, *_) = results.findings
    assert f". It {found.summary}." in Tree(reports.render_round(results, [])).words


def test_findings_show_the_smallest_sequence():
    """Questions in order with their true numbers, pauses and answers, a gap where it is cut, and the answer alone."""
    page = Tree(reports.render_round(results_of(), [])).words
    assert "where nothing else was asked, the picture in question is answered abstained :" in page
    assert "1 square 3 zero 2 clean 4 one 3 pgd 5 two 4 square 6 0.7 s zero" in page
    assert "left out 4 more questions 9 square 9 one 10 clean 10 abstained" in page
    assert "12 square 17 1.2 s two" in page


def test_findings_say_how_to_see_them_again():
    """The command, the image, the job, its steps and their seeds; strangers are trusted knowingly."""
    page = Tree(reports.render_round(results_of(), [])).words
    assert "sparring replay F1 --dir DIR Image" in page
    assert f"Image sha256:{'12' * 32} , job 00000000000000aa , steps 4, 9, seeds 815, none." in page
    alone = Tree(reports.render_round(results_of(backend="process"), [])).words
    assert "sparring replay F1 --dir DIR --allow-unisolated" in alone


@pytest.mark.parametrize("kind", FindingKind)
def test_every_kind_of_finding_is_explained(kind):
    """Whatever a decision was seen to depend on is said in a sentence, for attacks in another one where it applies."""
    finding = {
        **parts(findings="F1"),
        "kind": kind,
        "p_value": 3.2e-7,
        "sequence": [],
        "length": 0,
        "answer_alone": None,
    }
    page = Tree(reports.render_round(results_of(findings=[finding]), [])).words
    assert evidence.DEFENCE_FINDING_TEXTS[kind] in page
    assert "an honest defence shows rates like these with a probability of at most 3e-07" in page
    assert "smallest sequence" not in page
    attack = Tree(reports.render_round(results_of(findings=[{**finding, "submission": "square"}]), [])).words
    assert evidence.ATTACK_FINDING_TEXTS.get(kind, evidence.DEFENCE_FINDING_TEXTS[kind]) in attack


def test_the_power_of_replays_is_shown():
    """Of every defence: counts, power, marked where below the plan, unconfirmed mismatches, and what it ran from."""
    page = reports.render_round(results_of(), [])
    words_ = Tree(page).words
    assert (
        "A cheat that changes 1% of its answers had to have a mismatch at least once with a probability of 99.0%"
        in words_
    )
    short, promised = "not cleared: less was compared than planned", "99.0% / 99.9% / 99.9%"
    assert f"madry 2,000 410 300 96.5% below the plan 96.5% / 99.7% / 99.7% 0 3 1 109 a fresh copy {short}" in words_
    # Moody's mismatches were confirmed.
    assert f"moody 2,000 410 410 99.0% {promised} 0 0 0 0 its image: this backend copies none a finding" in words_
    own = "its image: the organizers' own"
    assert f"undefended 2,000 410 410 99.0% {promised} 2 0 0 0 {own} not cleared: 2 mismatches not confirmed" in words_
    assert page.count("below the plan") == 1


def test_mismatches_that_were_not_confirmed_are_no_clean_bill():
    """Only who was compared in full, without a mismatch, has nothing found; the others stand out."""
    clean = results_of().model_dump()["replays"][2] | {"mismatches": 0}
    page = reports.render_round(results_of(replays=[clean]), [])
    assert "0 0 0 0 its image: the organizers' own nothing found" in Tree(page).words
    assert 'class="loud">nothing found' not in page
    assert 'class="loud">not cleared: 1 mismatch not confirmed' in reports.render_round(
        results_of(replays=[clean | {"mismatches": 1}]), []
    )


def test_a_round_without_replays_has_no_table_of_them():
    """Where nothing was asked again nothing is claimed."""
    assert 'id="replays"' not in reports.render_round(results_of(replays=[]), [])


def test_long_evidence_is_cut_and_says_so():
    """Beyond the first rows the page names how many are left out."""
    finding = parts(findings="F1")
    many = {**finding, "disagreements": finding["disagreements"] * 40}
    assert "28 more disagreements in results.json." in Tree(reports.render_round(results_of(findings=[many]), [])).words
