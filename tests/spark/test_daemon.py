import pytest

pytest.importorskip("pyspark")

from pyspark import daemon as pysparks

from leporid.spark import daemon


def test_a_worker_whose_connection_was_closed_ends_without_a_word(capsys):
    def closed(sock, authenticated):
        raise BrokenPipeError

    assert daemon.quiet(closed)(None, True) == daemon.EXIT_FAILED
    assert capsys.readouterr() == ("", "")


def test_other_errors_are_those_of_the_worker():
    def broken(sock, authenticated):
        raise ValueError(authenticated)

    assert daemon.quiet(lambda sock, authenticated: 7)(None, True) == 7
    with pytest.raises(ValueError, match="True"):
        daemon.quiet(broken)(None, True)


def test_it_serves_as_pysparks_own(monkeypatch):
    served = []
    monkeypatch.setattr(pysparks, "worker", before := pysparks.worker)
    monkeypatch.setattr(pysparks, "manager", lambda: served.append(pysparks.worker))
    daemon.main()
    assert served[0] is not before
