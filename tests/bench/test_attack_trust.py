from pathlib import Path

from bench.attacks.trust import readable_below


def test_files_that_others_can_reach_and_read_are_found(tmp_path: Path):
    for name, directory_mode in (("open", 0o755), ("closed", 0o700)):
        directory = tmp_path / name
        directory.mkdir()
        for file, mode in (("public", 0o644), ("private", 0o600)):
            (directory / file).touch(mode)
            (directory / file).chmod(mode)
        directory.chmod(directory_mode)
    tmp_path.chmod(0o755)
    assert readable_below(tmp_path) == [tmp_path / "open" / "public"]
    tmp_path.chmod(0o700)
    assert readable_below(tmp_path) == []
