"""Check the prose of the pages and docstrings with proselint: ``python scripts/prose.py``.

Pages are the Markdown and reStructuredText files of the repository, without those that the site's
build writes; docstrings are those of the public names. Code, formulas, comments, tables of numbers
and directives are blanked first, so that only sentences are read, at their lines. What proselint
says is printed and is an error, unless an entry of ``EXCEPTIONS`` gives the reason why it stands.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What the build of the site writes.
BUILT = (
    *("docs/auto_examples", "docs/api/generated", "docs/api/backreferences"),
    *("docs/lab/generated", "build", "dist"),
)

#: Checks that are turned off, with the reason.
CONFIGURATION = {
    "checks": {
        # Sources are typed in plain characters: the site makes quotes and dots of them.
        "typography.symbols.curly_quotes": False,
        "typography.symbols.ellipsis": False,
        "typography.symbols.multiplication": False,
        "typography.symbols.trademark": False,
        "typography.symbols.sentence_spacing": False,
        # Blanked code and columns laid out by spaces.
        "typography.punctuation.spacing": False,
    }
}


@dataclass(frozen=True)
class Allowed:
    """A finding that stands: its check, a pattern of words at its line, and why."""

    check: str
    words: str
    reason: str


EXCEPTIONS = (
    Allowed("weasel_words.very", r"\b(?:the|these|this) very\b", "means: these and no others"),
    Allowed("typography.diacritical_marks", r"\bresume", "to go on, not a life story"),
    Allowed(
        "misc.phrasal_adjectives.ly",
        r"family-wise|multiply-add",
        "names: an error rate, an instruction",
    ),
    Allowed("needless_variants", r"[Aa]ntithetic", "antithetic draws: the name of a method"),
    Allowed("uncomparables", r"(?:more|less) absolute", "error of the absolute kind"),
)

#: What is no sentence, in the order in which it is blanked.
BLANKED = (
    re.compile(r"^```(?!\{glossary).*?^```$", re.M | re.S),
    re.compile(r"^:::.*$|^```.*$|^:\w+:.*$", re.M),
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"\$\$.*?\$\$", re.S),
    re.compile(r"^Examples\n--------\n.*", re.M | re.S),
    re.compile(r"^\.\. .*$|^ +[\w.]+$|^\S+(?:, \S+)* : .*$", re.M),  # directives, names, types
    re.compile(r"^\|(?=.*\d\.\d.*\d\.\d).*$|^\|[-:| ]+\|$", re.M),
)
INLINE = re.compile(r"``[^`]+``|`[^`\n]+`|\$[^$\n]+\$|\]\([^)]*\)|\b\d[\d.,]*\b")


def sentences(text: str) -> str:
    """Return a text of the same lines in which nothing but sentences is left."""
    for pattern in BLANKED:
        # A full stop, since the sentence does not go on behind it.
        text = pattern.sub(lambda found: "." + re.sub(r"[^\n]", " ", found[0])[1:], text)
    # Two codes or numbers in a row are not one word twice: each is a word of another letter.
    letters = iter(range(10**6))
    text = INLINE.sub(lambda found: chr(97 + next(letters) % 26) * len(found[0]), text)
    # A heading is a sentence of its own, and so is a column of a table laid out by spaces.
    text = re.sub(r"^(#+ .*?)$", r"\1.", text, flags=re.M)
    return re.sub(r"(?<=\w) (?=  +\w)", ".", text)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page, and of the docstring of every public name."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.rst")]
    paths += [ROOT / "examples" / "README.md", ROOT / "benchmarks" / "README.md"]
    for path in sorted(paths):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(BUILT) and "_templates" not in name:
            yield name, path.read_text(encoding="utf-8")
    import kdey

    yield "kdey", inspect.getdoc(kdey) or ""
    for name in kdey.__all__:
        yield f"kdey.{name}", inspect.getdoc(getattr(kdey, name)) or ""


def findings(texts: dict[str, str]) -> list[str]:
    """Return what proselint says of texts, one line each, without the exceptions."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for number, (name, text) in enumerate(texts.items()):
            path = Path(folder, f"{number}.md")
            path.write_text(sentences(text), encoding="utf-8")
            files[str(path)] = name
        settings = Path(folder, "settings.json")
        settings.write_text(json.dumps(CONFIGURATION), encoding="utf-8")
        command = [sys.executable, "-m", "proselint", "check", "--config", str(settings)]
        done = subprocess.run(
            [*command, "-o", "json", *files], capture_output=True, text=True, check=False
        )
    if not done.stdout.strip():
        raise RuntimeError(f"proselint did not answer: {done.stderr.strip()}")
    found = []
    for path, result in json.loads(done.stdout)["result"].items():
        name = files[path.removeprefix("file://")]
        for item in result.get("diagnostics", []):
            line, column = item["pos"]
            words = " ".join(texts[name].splitlines()[max(line - 2, 0) : line + 1])
            if not excepted(item["check_path"], words):
                found.append(f"{name}:{line}:{column}: {item['check_path']}: {item['message']}")
    return found


def excepted(check: str, words: str) -> bool:
    """Return whether a finding stands for a reason."""
    return any(check == one.check and re.search(one.words, words) for one in EXCEPTIONS)


def main() -> None:
    """Print the findings; fail where there are some."""
    found = findings(dict(pages()))
    print("\n".join(found))
    if found:
        sys.exit(f"{len(found)} findings: mend the sentence, or give a reason in EXCEPTIONS")


if __name__ == "__main__":
    main()
