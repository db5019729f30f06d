"""Holds the prose of the repository to limits; `make check` runs this script.

Readers stumble over long sentences, and over clauses with `what` or `who` in place of a noun. Each
kind of text must keep the limits by itself: pages, comments in Rust, strings in Rust, and Python.
The script ignores code, tables, headings, tests, and pages that programs write from claims.

usage: prose.py [FILE...]    checks the whole repository; for FILEs it prints each fault
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

LEFT_OUT = re.compile(
    r"docs/reproduce/(?!README)|CHANGELOG\.md$"  # Claims, or one line for each change.
    r"|(?:^|/)tests/|/tests\.rs$|^fuzz/|(?:^|/)testing(?:/|\.rs$)"
)
"""Files that are not checked."""

LONG = 25
"""A sentence with more words is long."""

LONGEST = 40
"""Words that no sentence may exceed."""

FEWEST = 4
"""A piece of text with fewer words is no sentence."""

LIMITS = {
    "long": 8.0,
    "headless": 0.3,
    "vague": 0.3,
    "asking": 3.0,
    "unusual": 0.1,
    "endless": 0.0,
}
"""Greatest share of sentences with each fault, in per cent."""

VERB = r"is|are|was|were|has|have|had|does|do|can|may|must|will|would|\w+s|came|went|left|stood"

HEADLESS = re.compile(
    rf"(?:^|[.;:,(] |\b(?:of|by|for|from|to|with|in|at|behind|before|than|and|but|if|that) )"
    rf"(?:what|who|whoever|whatever)\s+(?:{VERB})\b",
    re.IGNORECASE,
)
"""A clause whose subject is a pronoun, such as "what waits is dropped"."""

ASKING = re.compile(r"(?:What|Whether|How|When|Where|Who|Whose|Whom)\b")
"""The first word of a sentence that states a question instead of naming its subject."""

UNUSUAL = re.compile(r"\b(?:anew|whoever|governed|held for gone|leave to send)\b", re.IGNORECASE)
"""Unusual words. The field's words are: again, every sender, ACK-controlled, dead, credit."""

PARTICLES = re.compile(
    r"(?:what|who|whom|whose|that|those|these|this|it|its|ones?|there|such|others?|they|them|each"
    r"|so|which|then|by|as|of)",
    re.IGNORECASE,
)
"""Words that refer to other words. In a vague sentence, more than a third of the words do so."""

VAGUE_FROM = 8
"""A sentence with fewer words never counts as vague."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the first line of its paragraph."""

    line: int
    text: str

    def words(self) -> list[str]:
        """The words of the sentence."""
        return re.findall(r"[A-Za-z][A-Za-z'-]*", self.text)

    def faults(self) -> list[str]:
        """The faults of the sentence, as names of `LIMITS`."""
        words = self.words()
        particles = sum(PARTICLES.fullmatch(word) is not None for word in words)
        found = {
            "long": len(words) > LONG,
            "endless": len(words) > LONGEST,
            "headless": HEADLESS.search(self.text) is not None,
            "vague": len(words) >= VAGUE_FROM and 3 * particles > len(words),
            # In docs/decisions.md an entry begins with its question.
            "asking": ASKING.match(self.text) is not None and not self.text.endswith("?"),
            "unusual": UNUSUAL.search(self.text) is not None,
        }
        return [name for name, is_there in found.items() if is_there]


Text = tuple[int, str]
"""A piece of prose, and the number of its first line."""

LABEL = re.compile(r"^(?:What would change it|Why|Choice|Cost|Question): ")
"""The label of a part of an entry in docs/decisions.md."""


def paragraphs(page: str) -> Iterator[Text]:
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
        # The second alternative matches an argument in a docstring.
        begins_part = re.match(r"\s*(?:Source|Differs):|\s{8,}[a-z_]+: ", line) is not None
        if block and (ends or begins_item or begins_part):
            yield start, " ".join(block)
            block = []
        if not ends:
            start = start if block else number
            block.append(stripped)


def sentences(texts: Iterator[Text]) -> Iterator[Sentence]:
    """The sentences of texts. Code counts as one word, and a link as its text."""
    for line, text in texts:
        plain = re.sub(r"(`+)[^`]*\1", "CODE", text)
        plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\))?", r"\1", plain)
        for piece in re.split(r"(?<=[.!?])\s+(?=[A-Z\"(\[*])", plain):
            text = re.sub(r"^(?:[-*]|\d+\.)\s+", "", piece.strip())
            sentence = Sentence(line, LABEL.sub("", text))
            if len(sentence.words()) >= FEWEST:
                yield sentence


def blocks(lines: Iterator[tuple[int, str]]) -> Iterator[Text]:
    """Joins comments of successive lines, and yields their paragraphs."""
    block: list[str] = []
    start = 0
    for number, line in lines:
        if block and number != start + len(block):
            yield from shifted(start, "\n".join(block))
            block = []
        start = start if block else number
        block.append(line)
    yield from shifted(start, "\n".join(block))


def shifted(start: int, text: str) -> Iterator[Text]:
    """The paragraphs of a text that begins at line `start`."""
    for line, paragraph in paragraphs(text):
        yield start + line - 1, paragraph


COMMENT = re.compile(r"\s*//[/!]?(?: (.*))?$")
"""A line of Rust that has nothing but a comment."""


def rust_comments(source: str) -> Iterator[Text]:
    """Paragraphs of the comments in a Rust source."""
    found = ((number, COMMENT.match(line)) for number, line in enumerate(source.splitlines(), 1))
    yield from blocks((number, it[1] or "") for number, it in found if it)


STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
"""A string literal of Rust."""

OF_PEOPLE = re.compile(r"^[A-Za-z{`](?:(?!\\n)[^=\n|])*$")
"""A string for people. Tables and lines of files have other characters or line breaks."""


def rust_strings(source: str) -> Iterator[Text]:
    """Messages in a Rust source: strings of several words, without those of unit tests."""
    code = re.sub(r"(?m)^\s*//.*$", "", source.split("#[cfg(test)]\nmod tests {")[0])
    code = re.sub(r'r#".*?"#', '""', code.replace("'\"'", "' '"), flags=re.DOTALL)
    for it in STRING.finditer(code):
        text = re.sub(r"\\\n\s*", "", it[1]).replace('\\"', "'")
        text = re.sub(r"\{[^{}]*\}", "CODE", text)
        if OF_PEOPLE.match(text):
            yield code[: it.start()].count("\n") + 1, text


def python_docs(source: str) -> Iterator[Text]:
    """Docstrings, comments and the reasons of claims in a Python source."""
    for node in ast.walk(ast.parse(source)):
        for text in described(node):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield from shifted(text.lineno, text.value)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [it for it in tokens if it.type == tokenize.COMMENT]
    yield from blocks((it.start[0], it.string.lstrip("# ")) for it in comments)


def described(node: ast.AST) -> list[ast.expr]:
    """Texts in a node: a docstring, or the reason why a claim does not hold."""
    if isinstance(node, ast.Call):
        return [it.value for it in node.keywords if it.arg == "why"]
    return [node.value] if isinstance(node, ast.Expr) else []


KINDS: dict[str, tuple[str, Callable[[str], Iterator[Text]]]] = {
    "pages": (r"\.md$", paragraphs),
    "comments in Rust": (r"\.rs$", rust_comments),
    "strings in Rust": (r"^crates/(?:config|repository|scenario|tidegate)/.*\.rs$", rust_strings),
    "Python": (r"\.py$", python_docs),
}
"""For each kind of text: a pattern of its file names, and a function that finds its paragraphs."""


def beyond(kind: str, files: dict[str, str]) -> list[str]:
    """For each limit that the files together exceed: a line about it, then the faulty sentences."""
    texts = KINDS[kind][1]
    read = [(name, sentence) for name, it in files.items() for sentence in sentences(texts(it))]
    complaints = []
    for fault, limit in LIMITS.items():
        found = [(name, it) for name, it in read if fault in it.faults()]
        share = 100 * len(found) / max(len(read), 1)
        if share > limit:
            complaints.append(f"{fault}: {share:.1f} % of the sentences in {kind}, not {limit} %")
            complaints += [f"  {name}:{it.line}: {it.text}" for name, it in found]
    return complaints


def faults_of(name: str) -> None:
    """Prints each fault of a file."""
    for pattern, texts in KINDS.values():
        if re.search(pattern, name):
            for sentence in sentences(texts(Path(name).read_text())):
                if faults := sentence.faults():
                    print(f"{name}:{sentence.line}: {', '.join(faults)}: {sentence.text}")


def main(names: list[str]) -> int:
    """Prints the exceeded limits of the repository, or all faults of the named files."""
    for name in names:
        faults_of(name)
    if names:
        return 0
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.rs", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    kept = [it for it in listed.stdout.split() if not LEFT_OUT.search(it)]
    kept = [it for it in kept if (ROOT / it).exists()]
    complaints = []
    for kind, (pattern, _) in KINDS.items():
        files = {it: (ROOT / it).read_text() for it in kept if re.search(pattern, it)}
        complaints += beyond(kind, files)
    print("\n".join(complaints), end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
