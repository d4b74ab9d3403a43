"""Places on a disk; those in an object store are in test_object_stores.py."""

import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.places import (
    Place,
    PlaceError,
    delta_options,
    iceberg_options,
    place_of,
    s3_arguments,
    said,
    written,
)

MINIO = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000/", "AWS_REGION": "eu-1"}


def test_a_folder_is_a_place_with_parts(tmp_path):
    place = place_of(tmp_path / "a")
    assert place.names() == []
    (place / "x" / "y").write(b"one")
    (place / "x" / "y").write(b"two")
    assert (place / "x" / "y").read() == b"two"
    assert place.names() == ["x"]
    assert (place / "x").names() == ["y"]
    (place / "x" / "y").remove()
    assert (place / "x" / "y").read() is None
    assert place.uri == (tmp_path / "a").as_uri()
    assert place_of(place.uri) == place_of(place) == place
    assert str(place.with_suffix("~b")) == f"{tmp_path}/a~b"


def test_what_the_disk_refuses_is_said_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    place = place_of(tmp_path / "file" / "a")
    with pytest.raises(PlaceError, match=r"file/a/x cannot be written: .*[Nn]ot a directory"):
        (place / "x").write(b"")
    with pytest.raises(PlaceError, match=r"file/a cannot be written: .*file is no folder"):
        place.check("probe")
    place_of(tmp_path / "b" / "c").check("probe")
    assert not (tmp_path / "b").exists()
    with pytest.raises(PlaceError, match="cannot be listed"):
        place_of(tmp_path / "file").names()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("abfss://container@account.dfs.core.windows.net/a", None),
    ],
)
def test_urls_are_those_of_three_object_stores(given, found):
    place = place_of(given)
    assert place == Place(found or given)
    assert place.path is None
    assert place.name == given.rstrip("/").rpartition("/")[2]


@pytest.mark.parametrize("given", ["hdfs://h/a", "s3://bucket", "s3://bucket/a#b", "s3:///a"])
def test_other_urls_are_refused(given):
    with pytest.raises(OptionError):
        place_of(given)


def test_a_url_with_keys_is_refused_and_not_repeated():
    with pytest.raises(OptionError, match="has no keys: they are in variables") as refused:
        place_of("s3://key:secret@bucket/a")
    assert "@" not in str(refused.value)


def test_variables_of_amazons_tools_say_where_s3_is():
    assert s3_arguments({}) == {}
    assert s3_arguments(MINIO) == {
        "endpoint_override": "127.0.0.1:9000",
        "scheme": "http",
        "region": "eu-1",
    }
    assert s3_arguments({"AWS_ENDPOINT_URL_S3": "minio:1", "AWS_ENDPOINT_URL": "x"}) == {
        "endpoint_override": "minio:1",
        "scheme": "https",
    }
    assert delta_options({}) == {}
    assert delta_options(MINIO) == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
    }
    assert iceberg_options(MINIO) == {"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "eu-1"}


def test_a_draft_is_beside(tmp_path):
    assert written(tmp_path, "é").read_text() == "é"
    assert said(OSError("no (Request ID: AB12)\nmore")) == "no"
