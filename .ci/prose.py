"""Holds the prose of the Markdown pages to limits; `make check` runs it.

Readers stumble over long sentences, and over clauses with `what` or `who` in place of a noun. Code,
tables and headings of a page are left out, and so are pages that programs write from claims.

usage: prose.py [FILE...]    checks every page of the repository; for FILEs it prints each fault
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Written by `tidegate-repro`, or one line for each change.
LEFT_OUT = re.compile(r"docs/reproduce/(?!README)|CHANGELOG\.md$")

LONG = 25
"""Words from which on a sentence is long."""

LONGEST = 40
"""Words that no sentence may exceed."""

FEWEST = 4
"""Words below which a piece of text is no sentence."""

LIMITS = {"long": 8.0, "headless": 0.3, "asking": 3.0, "unusual": 0.1, "endless": 0.0}
"""Most sentences with each fault, in per cent."""

VERB = r"is|are|was|were|has|have|had|does|do|can|may|must|will|would|\w+s|came|went|left|stood"

HEADLESS = re.compile(
    rf"(?:^|[.;:,(] |\b(?:of|by|for|from|to|with|in|at|behind|before|than|and|but|if|that) )"
    rf"(?:what|who|whoever|whatever)\s+(?:{VERB})\b",
    re.IGNORECASE,
)
"""A clause whose subject is a pronoun: "what waits is dropped", "that of who has sent its last"."""

ASKING = re.compile(r"(?:What|Whether|How|When|Where|Who|Whose|Whom)\b")
"""The first word of a sentence that names a question in place of a thing."""

UNUSUAL = re.compile(r"\b(?:anew|whoever|governed|held for gone|leave to send)\b", re.IGNORECASE)
"""Words for which the field has others: again, every sender, ACK-controlled, dead, credit."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the line of the paragraph that it stands in."""

    line: int
    text: str

    def words(self) -> int:
        """Number of its words."""
        return len(re.findall(r"[A-Za-z][A-Za-z'-]*", self.text))

    def faults(self) -> list[str]:
        """Names of `LIMITS` that it adds to."""
        length = self.words()
        found = {
            "long": length > LONG,
            "endless": length > LONGEST,
            "headless": HEADLESS.search(self.text) is not None,
            # A decision begins with its question.
            "asking": ASKING.match(self.text) is not None and not self.text.endswith("?"),
            "unusual": UNUSUAL.search(self.text) is not None,
        }
        return [name for name, is_there in found.items() if is_there]


LABEL = re.compile(r"^(?:What would change it|Why|Choice|Cost|Question): ")
"""A part of a decision."""


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items of lists, each with the number of its first line."""
    block: list[str] = []
    start = 0
    in_code = False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        stripped = line.lstrip()
        fence = stripped.startswith("```")
        in_code ^= fence
        ends = fence or in_code or not stripped or stripped.startswith(("|", "#", "<", "!["))
        begins_item = re.match(r"\s*(?:[-*]|\d+\.)\s", line) is not None
        if block and (ends or begins_item):
            yield start, " ".join(block)
            block = []
        if not ends:
            start = start if block else number
            block.append(stripped)


def sentences(page: str) -> Iterator[Sentence]:
    """The sentences of a page. Code is one word, and a link its text."""
    for line, text in paragraphs(page):
        plain = re.sub(r"`[^`]*`", "CODE", text)
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        for piece in re.split(r"(?<=[.!?])\s+(?=[A-Z\"(\[*])", plain):
            text = re.sub(r"^(?:[-*]|\d+\.)\s+", "", piece.strip())
            sentence = Sentence(line, LABEL.sub("", text))
            if sentence.words() >= FEWEST:
                yield sentence


def beyond(pages: dict[str, str]) -> list[str]:
    """A line for each limit that the pages exceed together, with the sentences that do so."""
    read = [(name, sentence) for name, page in pages.items() for sentence in sentences(page)]
    complaints = []
    for fault, limit in LIMITS.items():
        found = [(name, it) for name, it in read if fault in it.faults()]
        share = 100 * len(found) / max(len(read), 1)
        if share > limit:
            complaints.append(f"{fault}: {share:.1f} % of the sentences, {limit} % may be")
            complaints += [f"  {name}:{it.line}: {it.text}" for name, it in found]
    return complaints


def main(names: list[str]) -> int:
    """Prints what is beyond the limits; with names, what these files add to them."""
    if names:
        for name in names:
            for sentence in sentences(Path(name).read_text()):
                if faults := sentence.faults():
                    print(f"{name}:{sentence.line}: {', '.join(faults)}: {sentence.text}")
        return 0
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept = [it for it in listed.stdout.split() if not LEFT_OUT.search(it)]
    pages = {it: (ROOT / it).read_text() for it in kept if (ROOT / it).exists()}
    complaints = beyond(pages)
    print("\n".join(complaints), end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
