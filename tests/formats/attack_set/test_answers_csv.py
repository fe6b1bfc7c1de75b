"""Tables of answers: what the page saves is read, anything else is refused with its lines."""

import pytest
from pydantic import ValidationError

from orchestrator.errors import Rejected
from orchestrator.formats.attack_set.grading.answers_csv import COLUMNS, read_answers_csv
from orchestrator.formats.attack_set.grading.sheets import Answer

PLAN = "ab" * 32
HEADER = ",".join(COLUMNS)
VALID = f"{PLAN},rater-7,item-0000000000000001,3,yes,,1200,1"
NONE = f"{PLAN},rater-7,item-12e4567890123456,,no,,700,1.25"
QUALITY = f"{PLAN},rater-7,item-0000000000000003,,,5,499,2"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte-order-mark"])
def test_a_table_is_read(end, mark) -> None:
    """Every answer, in order, with None for empty cells."""
    file = read_answers_csv(mark + end.join([HEADER, VALID, NONE, QUALITY, ""]))
    assert (file.plan, file.rater) == (PLAN, "rater-7")
    first, second, third = ("0000000000000001", "12e4567890123456", "0000000000000003")
    assert file.answers == [
        Answer(token=first, class_index=3, proper=True, milliseconds=1200, device_pixel_ratio=1),
        Answer(token=second, proper=False, milliseconds=700, device_pixel_ratio=1.25),
        Answer(token=third, grade=5, milliseconds=499, device_pixel_ratio=2),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "file: it is not a table", id="empty"),
        pytest.param('"\0', "file: it is not a table", id="no-csv"),
        pytest.param(f"{HEADER}\n", "file: it has no answer", id="no-answer"),
        pytest.param(f"token,grade\n{QUALITY}", "line 1: the columns are not", id="other-columns"),
        pytest.param(f"{HEADER}\n{VALID}\n{VALID},1", "line 3: it has 9 cells instead of 8", id="cell-too-many"),
        pytest.param(f"{HEADER}\n{VALID}\n\n{VALID}", "line 3: it has 0 cells", id="empty-line"),
        pytest.param(f"{HEADER}\n{VALID.replace('yes', 'TRUE')}", "line 2: proper is neither", id="proper"),
        pytest.param(f"{HEADER}\n{VALID.replace('item-', '')}", "line 2: token does not begin", id="bare-token"),
        pytest.param(f"{HEADER}\n{VALID.replace('item-0', 'item-G')}", "line 2: token: 'G", id="token"),
        pytest.param(f"{HEADER}\n{QUALITY.replace(',5,', ',6,')}", "line 2: grade: '6' is too large", id="grade"),
        pytest.param(f"{HEADER}\n{VALID.replace('1200', '1.2E+3x')}", "line 2: milliseconds", id="milliseconds"),
        pytest.param(
            f"{HEADER}\n{VALID.replace('1200', '9' * 400)}", "line 2: milliseconds", id="milliseconds-of-400-digits"
        ),
        pytest.param(f"{HEADER}\n{VALID}\n{NONE.replace('-7', '-8')}", "column rater: it has several", id="two-raters"),
        pytest.param(f"{HEADER}\n{VALID.replace(PLAN, 'x')}", "line 2: plan: 'x' is not allowed here", id="plan"),
    ],
)
def test_anything_else_is_refused(text, problem) -> None:
    """The problem names the line and what is wrong with it."""
    with pytest.raises(Rejected) as refused:
        read_answers_csv(text)
    assert str(refused.value.problems[0]).startswith(problem)


@pytest.mark.parametrize("milliseconds", [2**53, int("9" * 400)])
def test_a_time_beyond_any_page_is_refused(milliseconds) -> None:
    """Quantiles of answer times are of 64-bit floats, and the ledger's JSON holds no larger number exactly."""
    with pytest.raises(ValidationError, match="milliseconds"):
        Answer(token="0" * 16, grade=5, milliseconds=milliseconds)
    assert Answer(token="0" * 16, grade=5, milliseconds=2**53 - 1).milliseconds == 2**53 - 1


def test_all_bad_lines_are_named() -> None:
    """Not only the first."""
    with pytest.raises(Rejected, match=r"(?s)line 2.*line 4"):
        read_answers_csv("\n".join([HEADER, VALID.replace("yes", "?"), VALID, VALID.replace("1200", "?")]))
