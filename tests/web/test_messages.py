"""Messages that name a command: pages show the command as code, and nothing else of a message is markup."""


def test_what_is_between_backticks_is_code(service) -> None:
    """Everything is escaped, within backticks too; a single backtick stays one."""
    from orchestrator.web.templating import commands

    said = "it is <b>; run `sparring submit --to <URL>`, or `x` ` alone"
    assert commands(said) == (
        "it is &lt;b&gt;; run <code>sparring submit --to &lt;URL&gt;</code>, or <code>x</code> ` alone"
    )


def test_a_text_of_a_submission_stays_printable_and_short(service) -> None:
    """As every other text on a page: what would turn the page around is shown as an escape."""
    from orchestrator.web.templating import commands

    assert "\u202e" not in commands("the name \u202e is `wrong`")
    assert len(commands("x" * 5000)) < 2100


def test_the_pages_of_organizers_show_commands_as_code(world) -> None:
    """Why nobody can be promoted names the command that plays the round."""
    from .world import PEOPLE

    page = world.client(next(each for each in PEOPLE if each.name == "Olga")).get("/organize/promote/").content.decode()
    assert "<code>sparring round run" in page
    assert "`" not in page.split("<main")[1]
