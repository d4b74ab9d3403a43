"""The libraries of the web UI are the files that `vendor/README.md` names, byte by byte."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

# Not where the package is installed, which leaves out the list.
VENDOR = Path(__file__).parents[2] / "src" / "leporid" / "webui" / "vendor"
README = VENDOR / "README.md"
HASH = r"[0-9a-f]{64}"
ROW = re.compile(rf"^\| `(\S+)` \| `({HASH})` \| (?:`({HASH})`|the same) \|$", re.M)

# What was changed in each file, and what stands there in npm's.
CHANGES = {
    "hooks.js": (b'from"./preact.js"', b'from"preact"'),
    "uplot.js": (b"export default uPlot;\n", b""),
}


def rows() -> dict[str, tuple[str, str]]:
    """The hash here and the hash in the package, by file."""
    found = ROW.findall(README.read_text())
    return {name: (here, there or here) for name, here, there in found}


def test_each_library_is_listed() -> None:
    there = {each.name for each in VENDOR.iterdir() if each.suffix in {".js", ".css"}}
    assert there == set(rows())


@pytest.mark.parametrize("name", sorted(rows()))
def test_a_library_is_npms_but_for_the_change_that_is_named(name: str) -> None:
    here, there = rows()[name]
    content = (VENDOR / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == here
    changed, original = CHANGES.get(name, (b"", b""))
    if changed:
        assert content.count(changed) == 1
        content = content.replace(changed, original)
    assert hashlib.sha256(content).hexdigest() == there


def test_each_licence_that_is_named_is_there() -> None:
    named = set(re.findall(r"`(LICENSE-\w+\.txt)`", README.read_text()))
    there = {each.name for each in VENDOR.glob("LICENSE*")}
    assert named == there
