"""Reports of replay are plain values."""

from leporid.engine.log.reports import SegmentReport, SegmentUnreadable


def test_a_report_begins_with_nothing_found():
    report = SegmentReport(3)
    assert report.number == 3
    assert (report.used, report.torn, report.records, report.undone) == (0, 0, 0, 0)
    assert report.damaged == []
    assert report.damaged is not SegmentReport(4).damaged


def test_what_cannot_be_read_says_why():
    assert str(SegmentUnreadable("segment 3: its header is damaged")).startswith("segment 3")
