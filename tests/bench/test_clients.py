import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.brokers import own_broker
from bench.client_drivers import DRIVERS, Window, percentile
from bench.clients import FIGURES, TITLES, main, markdown


def test_a_table_has_medians_and_gaps():
    runs = {
        "ours": [{"publish_per_s": 1000.0}, {"publish_per_s": 3000.0}, {"publish_per_s": 2000.0}],
        "theirs": [{"confirm_p99_ms": 0.12345}],
    }
    assert markdown(runs).splitlines() == [
        "| | published and confirmed, /s | one confirmed publish, p99 ms |",
        "|---|---:|---:|",
        "| ours | 2,000 |  |",
        "| theirs |  | 0.123 |",
    ]


def test_a_percentile_is_one_of_the_values():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


def test_a_window_is_never_larger_than_it_may_be():
    published = 0

    def publish() -> None:
        nonlocal published
        published += 1

    window = Window(2500, publish)
    window.fill()
    assert (window.open, published) == (1000, 1000)
    assert not window.confirm(400)
    assert (window.open, published) == (1000, 1400)
    while not window.confirm(window.open):
        pass
    assert (window.confirmed, published) == (2500, 2500)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with own_broker() as broker:
        yield broker.url


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", DRIVERS)
def test_each_client_gives_each_figure(
    client: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output = tmp_path / "figures.json"
    arguments = ["--only", client, "--messages", "300", "--runs", "1", "--json", str(output)]
    assert main([*arguments, "--against", url]) == 0
    figures = json.loads(output.read_text())["medians"][client]["clients"]
    assert set(figures) == set(TITLES)
    assert len(FIGURES) < len(TITLES)
    assert all(value > 0 for name, value in figures.items() if not name.endswith("_bytes"))
    rows = [row.split("  ")[:3] for row in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row[0] == "run 1"] == [
        ["run 1", client, each] for each in FIGURES
    ]


@pytest.mark.slow
def test_a_client_that_takes_too_long_leaves_a_gap(capsys: pytest.CaptureFixture[str]):
    arguments = ["--figures", "publish", "--messages", "1", "--runs", "1", "--seconds", "0.01"]
    assert main(["--only", "leporid,pika", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "leporid, publish: not done within 0.01 s", "pika, publish: not done within 0.01 s",
    ]  # fmt: skip
    assert [row for row in shown.out.splitlines() if row.startswith("run")] == [
        "run 1  leporid  publish  -", "run 1  pika  publish  -",
    ]  # fmt: skip
    assert "| pika |" in shown.out


def test_a_client_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--only", "carrots"])
    assert "no 'carrots'; there are leporid" in capsys.readouterr().err
