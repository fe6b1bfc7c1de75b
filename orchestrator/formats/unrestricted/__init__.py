"""The unrestricted two-player contest: any picture that people find unambiguous may break a defence (U1 to U13).

| rule | modules | tests in `tests/formats/unrestricted/` |
| --- | --- | --- |
| U1-U4, U7-U9, U11, U12 | `event_checks`, `fold`, `state`, `due_events`, `commands`, `recusal` | `test_contest_rules` |
| U5 | `week_calendar`, `due_events`, `visibility` | `test_week_calendar`, `test_contest_rules`, `test_visibility` |
| U6 | `questionnaire`, `bounding_boxes`, `validity`, `rater_tests` | `test_raters_validity`, `test_rater_tests` |
| U10 | `money`, `prizes`, `statement` | `test_money`, `test_prizes`, `test_statement` |
| U13 | `rounds`, `state` | `test_contest_rules`, `test_rounds` |

`format` is the plug-in. `rounds` decides which defences are asked about which pictures in a round, and which events
record their answers.

`test_contest_properties` plays random contests over 40 weeks, and `test_forged_ledger` changes a ledger.
"""

plugin = "orchestrator.formats.unrestricted.format:Unrestricted"
