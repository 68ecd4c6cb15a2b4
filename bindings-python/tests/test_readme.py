"""The README's Python blocks run, in order, and print what the README says.

The blocks of one chapter share a process and their names, as a reader would type them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
LANGUAGES = {"python", "rust", "ts", "js", "text", "sh"}
# `bindings-node/tests/readme.test.mjs` runs these.
OTHERS = {"ts", "js"}

RUN = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
shown = []
for where, code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, where, "exec"), names)
    shown.append(out.getvalue())
print(json.dumps(shown))
"""


def blocks(text: str) -> list[tuple[str, int, str, str]]:
    """Lists the fenced blocks: chapter, line, language, content."""
    found: list[tuple[str, int, str, str]] = []
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        before = text[: match.start()]
        chapter = re.findall(r"^## (.*)$", before, re.MULTILINE)[-1]
        found.append((chapter, before.count("\n") + 2, match[1], match[2]))
    return found


BLOCKS = blocks(README.read_text("utf-8"))
CHAPTERS = list(dict.fromkeys(chapter for chapter, _, language, _ in BLOCKS if language == "python"))


def test_every_block_says_its_language() -> None:
    assert {language for _, _, language, _ in BLOCKS} <= LANGUAGES
    assert CHAPTERS


def test_every_shown_output_follows_its_code() -> None:
    for (_, _, before, _), (_, line, language, _) in zip(BLOCKS, BLOCKS[1:], strict=False):
        assert language != "text" or before in OTHERS | {"python"}, f"line {line}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_python_blocks_print_what_is_shown(chapter: str, tmp_path: Path) -> None:
    mine = [(line, language, content) for name, line, language, content in BLOCKS if name == chapter]
    code = [
        (f"README.md:{line}", "\n" * (line - 1) + content) for line, language, content in mine if language == "python"
    ]
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", RUN],
        input=json.dumps(code),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    wanted: list[str] = []
    before = ""
    for _, language, content in mine:
        if language == "python":
            wanted.append("")
        elif language == "text" and before == "python":
            wanted[-1] = content
        before = language
    assert json.loads(ran.stdout) == wanted
