"""Whatever fuzzers have reached, and whatever once was a defect, on the engine as it is built."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from fuzz.drawing import Drawing

from fuzz import corpora

TARGETS = sorted(path.stem for path in (corpora.ROOT / "targets").glob("*.py"))
MUTATIONS = 50

# A test goes through hundreds of inputs: ten seconds of a processor, minutes of a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"fuzz.targets.{request.param}")


def name_of(target: ModuleType) -> str:
    return target.__name__.rpartition(".")[2]


def test_seeds_are_borne(target):
    seeds = list(target.seeds())
    assert seeds
    for data in [b"", *seeds]:
        target.one(data)


def test_the_corpus_is_borne(target):
    inputs = list(corpora.corpus(name_of(target)))
    assert inputs, f"no corpus: make fuzz ARGS='{name_of(target)} --minimise'"
    for data in inputs:
        target.one(data)


def test_what_was_a_defect_is_borne(target):
    for _name, data in corpora.regressions(name_of(target)):
        target.one(data)


def test_mutations_of_its_own_are_borne_and_the_same_each_time(target):
    if not hasattr(target, "mutate"):
        pytest.skip("libFuzzer's alone")
    seeds = list(target.seeds())
    for number in range(MUTATIONS):
        data = seeds[number % len(seeds)]
        made = target.mutate(data, Drawing(number))
        assert made == target.mutate(data, Drawing(number))
        target.one(made)


def test_every_regression_is_of_a_target():
    folders = corpora.REGRESSIONS.glob("*") if corpora.REGRESSIONS.exists() else ()
    assert {path.name for path in folders} <= set(TARGETS)


def test_an_archive_of_the_same_inputs_has_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(corpora, "CORPORA", tmp_path)
    first = corpora.write("t", [b"b", b"a", b"", b"a"]).read_bytes()
    assert corpora.write("t", [b"", b"a", b"b"]).read_bytes() == first
    assert sorted(corpora.corpus("t")) == [b"", b"a", b"b"]
