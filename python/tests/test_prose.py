"""Tests of the check that holds the repository's prose to limits."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / ".ci" / "prose.py"
SPEC = importlib.util.spec_from_file_location("prose", PATH)
prose = importlib.util.module_from_spec(SPEC)
sys.modules["prose"] = prose
SPEC.loader.exec_module(prose)

BAD = "What waits is dropped at once."
GOOD = "The gateway drops waiting packets at once."


def faults(text, texts=prose.paragraphs):
    return [fault for sentence in prose.sentences(texts(text)) for fault in sentence.faults()]


def test_a_clause_without_a_noun_is_found():
    """Catches: such a clause missed at the start, after a comma, or after a preposition."""
    assert faults(BAD) == ["headless", "asking"]
    assert faults("The gateway drops it, what comes later waits.") == ["headless"]
    assert faults("Not for that of who has sent its last.") == ["headless", "vague"]
    assert faults(GOOD) == []


def test_a_long_sentence_is_a_fault_and_a_question_is_not():
    words = "The gateway " + "really " * 23
    assert faults(words + "waits.") == ["long"]
    assert faults("The gateway " + "really " * 38 + "waits.") == ["long", "endless"]
    assert faults("When does a gateway wait for data?") == []
    assert faults("When a gateway waits, data waits.") == ["asking"]


def test_a_sentence_of_particles_is_found():
    """Catches: a limit in words instead of a share; a short sentence that counts as vague."""
    assert faults("The gateway caps one of the windows that it forwards to senders.") == []
    assert faults("It is one of those that each of them has, or of others.") == ["vague"]
    assert faults("It is one of those.") == []


def test_unusual_words_are_found():
    assert faults("The connection begins anew after that.") == ["unusual"]
    assert faults("A gateway gives leave to send.") == ["unusual"]


def test_code_tables_and_headings_are_not_prose():
    """Catches: a code block that does not end; code or link targets that count as words."""
    page = "# What waits is dropped\n\n| What waits is dropped |\n\n```\nWhat waits is x\n```\n"
    assert faults(page) == []
    assert faults(page + "\nWhat waits is dropped.\n") == ["headless", "asking"]
    link = "[gateway](" + "a-b" * 50 + ")"
    text = f"- The {link} has `what is a b c` as its name."
    (sentence,) = prose.sentences(prose.paragraphs(text))
    assert sentence.text == "The gateway has CODE as its name."


RUST = f'''//! A file.

/// {GOOD}
fn f() {{
    g("{GOOD}", "what {{n}} is", "a = what is, and what was");  // {BAD}
}}

#[cfg(test)]
mod tests {{
    fn test() {{ g("{BAD}"); }}
}}
'''


def test_comments_and_messages_in_rust_are_read():
    """Catches: comments of `//!`, `///` or `//` that are missed; strings of tests that are read."""
    assert faults(RUST, prose.rust_comments) == faults(RUST, prose.rust_strings) == []
    for mark in ("//!", "///", "//"):
        bad = RUST.replace(f"/// {GOOD}", f"{mark} What waits\n{mark} is dropped at once.")
        assert faults(bad, prose.rust_comments) == ["headless", "asking"]
        assert faults(bad, prose.rust_strings) == []
    bad = RUST.replace(f'"{GOOD}"', '"the packets, \\\n    what waits here, go on"')
    assert faults(bad, prose.rust_strings) == ["headless"]
    (found,) = prose.sentences(prose.rust_comments(f"\n\n// {BAD}\n"))
    assert found.line == 3


def test_docstrings_comments_and_reasons_in_python_are_read():
    """Catches: docstrings of functions, comments, or reasons of claims that are missed."""
    good = f'"""{GOOD}"""\n\ndef f():\n    """{GOOD}"""\n    # {GOOD}\n    g("x", why="{GOOD}")\n'
    assert faults(good, prose.python_docs) == []
    for n in range(good.count(GOOD)):
        parts = good.split(GOOD)
        bad = GOOD.join(parts[: n + 1]) + BAD + GOOD.join(parts[n + 1 :])
        assert faults(bad, prose.python_docs) == ["headless", "asking"]


def test_only_the_handwritten_page_of_the_chapter_reproduce_is_checked():
    assert prose.LEFT_OUT.search("docs/reproduce/postack.md")
    assert not prose.LEFT_OUT.search("docs/reproduce/README.md")
    assert prose.LEFT_OUT.search("crates/core/src/ack/tests.rs")
    assert not prose.LEFT_OUT.search("crates/core/src/ack.rs")


def test_each_file_has_its_kinds_of_text():
    def kinds(name):
        return [
            kind for kind, (pattern, _) in prose.KINDS.items() if prose.re.search(pattern, name)
        ]

    assert kinds("crates/core/src/ack.rs") == ["comments in Rust"]
    assert kinds("crates/config/src/code.rs") == ["comments in Rust", "strings in Rust"]
    assert kinds("experiments/postack/ping.py") == ["Python"]
    assert kinds("README.md") == ["pages"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("pages", GOOD + " ", BAD + " "),
        ("comments in Rust", f"// {GOOD}\n", f"// {BAD}\n"),
        ("strings in Rust", f'f("{GOOD}");\n', f'f("{BAD}");\n'),
        ("Python", f"# {GOOD}\n", f"# {BAD}\n"),
    ],
)
def test_texts_are_held_to_their_limits(kind, good, bad):
    """Catches: a limit that is not compared; a limit that permits one faulty sentence too many."""
    good = good * 400
    assert prose.beyond(kind, {"a": good}) == []
    assert prose.beyond(kind, {"a": good, "b": bad}) == []
    two = prose.beyond(kind, {"a": good, "b": bad * 2})
    assert two[0] == f"headless: 0.5 % of the sentences in {kind}, not 0.3 %"
    assert len(two) == 3 and two[1].startswith("  b:1: What waits")
