"""The walks of docs/reading.md: their steps exist, and they are as short as the page promises.

It reads sources, compiled ones too, and knows nothing of what they do.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reading.md"
STEP = re.compile(r"^\d+\. `([\w/.]+)` `(\w+)`: \S", re.MULTILINE)

# Files on the way of a message: what a reader has to open limits how soon a newcomer can change it.
# A walk that gets longer wants a reason, and one that gets shorter a smaller number.
FILES = {"A message in": 9, "A message out": 9, "A message to its confirm": 7}


def walks() -> dict[str, list[tuple[str, str]]]:
    """(file, function) of each step, by heading."""
    sections = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        title: [(step[1], step[2]) for step in STEP.finditer(text)]
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def has_function(text: str, name: str) -> bool:
    return bool(re.search(rf"^ *(?:async )?(?:def|c[p]?def [\w .*]*?) ?\*?{name}\(", text, re.M))


@pytest.mark.parametrize("title", [title for title, steps in walks().items() if steps])
def test_each_step_is_there(title: str):
    steps = walks()[title]
    assert len(steps) > 4
    missing = [
        f"{path} {function}"
        for path, function in steps
        if not (ROOT / path).is_file()
        or not has_function((ROOT / path).read_text(encoding="utf-8"), function)
    ]
    assert not missing


def test_the_ways_of_a_message_are_short():
    assert {title: len({path for path, _ in walks()[title]}) for title in FILES} == FILES
