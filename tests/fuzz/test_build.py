import pytest

from fuzz import build


def test_without_clang_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.Missing, match="apt-get install clang"):
        build.build()


def test_without_its_runtime_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    clang = tmp_path / "clang-14"
    clang.write_text("#!/bin/sh\necho libclang_rt.asan-x86_64.so\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.Missing, match="apt-get install libclang-rt-14-dev"):
        build.build()


def test_without_atheris_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(build.Missing, match="pip install atheris"):
        build.libfuzzer()


def test_the_engine_with_sanitizers_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    made = build.environment([tmp_path], symbols=False, log=tmp_path / "report")
    assert made["PYTHONPATH"].split(":")[0] == str(build.LIBRARY)
    assert made["LD_PRELOAD"] == str(tmp_path)
    assert f"log_path={tmp_path}/report" in made["ASAN_OPTIONS"].split(":")
