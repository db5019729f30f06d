"""The check of the manual's prose bites."""

import importlib.util
import sys
from pathlib import Path

PATH = Path(__file__).parents[2] / ".ci" / "prose.py"
SPEC = importlib.util.spec_from_file_location("prose", PATH)
prose = importlib.util.module_from_spec(SPEC)
sys.modules["prose"] = prose
SPEC.loader.exec_module(prose)


def faults(text):
    return [fault for sentence in prose.sentences(text) for fault in sentence.faults()]


def test_a_clause_without_a_noun_is_found():
    """Kills: a clause at the beginning, behind a comma, or behind a preposition that is missed."""
    assert faults("What waits is dropped at once.") == ["headless", "asking"]
    assert faults("The gateway drops it, what comes later waits.") == ["headless"]
    assert faults("Not for that of who has sent its last.") == ["headless"]
    assert faults("The gateway drops waiting packets at once.") == []


def test_a_long_sentence_is_found_and_a_question_is_none():
    words = "The gateway " + "really " * 23
    assert faults(words + "waits.") == ["long"]
    assert faults("The gateway " + "really " * 38 + "waits.") == ["long", "endless"]
    assert faults("When does a gateway wait for data?") == []
    assert faults("When a gateway waits, data waits.") == ["asking"]


def test_words_for_which_the_field_has_others_are_found():
    assert faults("The connection begins anew after that.") == ["unusual"]
    assert faults("A gateway gives leave to send.") == ["unusual"]


def test_code_tables_and_headings_are_no_prose():
    """Kills: a fence that does not end; a link or code that counts by its letters."""
    page = "# What waits is dropped\n\n| What waits is dropped |\n\n```\nWhat waits is x\n```\n"
    assert faults(page) == []
    assert faults(page + "\nWhat waits is dropped.\n") == ["headless", "asking"]
    link = "[gateway](" + "a-b" * 50 + ")"
    (sentence,) = prose.sentences(f"- The {link} has `what is a b c` as its name.")
    assert sentence.text == "The gateway has CODE as its name."


def test_of_the_chapter_reproduce_the_handwritten_page_is_checked():
    assert prose.LEFT_OUT.search("docs/reproduce/postack.md")
    assert not prose.LEFT_OUT.search("docs/reproduce/README.md")


def test_pages_are_held_to_their_limits():
    """Kills: a limit that is not compared; one sentence too many that is allowed."""
    good = "The gateway drops waiting packets at once. " * 400
    assert prose.beyond({"a.md": good}) == []
    assert prose.beyond({"a.md": good, "b.md": "What waits is dropped at once."}) == []
    two = prose.beyond({"a.md": good, "b.md": "What waits is dropped at once. " * 2})
    assert two[0].startswith("headless: 0.5 % of the sentences, 0.3 %") and len(two) == 3
    assert prose.beyond({"a.md": good + "It begins anew after that."})[1].startswith("  a.md:1:")
