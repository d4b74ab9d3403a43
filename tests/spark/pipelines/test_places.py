"""Places on a disk; those in an object store are in test_object_stores.py."""

import pyarrow.fs as pafs
import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.places import (
    Place,
    PlaceError,
    azure_arguments,
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


def test_variables_say_where_azure_is_and_who_may():
    assert azure_arguments({}) == {}
    token = {"AZURE_STORAGE_SAS_TOKEN": "sv=1"}
    assert azure_arguments(token) == {"sas_token": "sv=1"}
    # pyarrow refuses both.
    assert azure_arguments({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5", **token}) == {
        "account_key": "a2V5"
    }
    assert azure_arguments({}, "dfs.core.chinacloudapi.cn") == {
        "blob_storage_authority": ".blob.core.chinacloudapi.cn",
        "dfs_storage_authority": ".dfs.core.chinacloudapi.cn",
        "blob_storage_scheme": "https",
        "dfs_storage_scheme": "https",
    }
    emulator = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/devstoreaccount1"}
    assert azure_arguments(emulator, "dfs.core.windows.net") == {
        "blob_storage_authority": "127.0.0.1:10000",
        "dfs_storage_authority": "127.0.0.1:10000",
        "blob_storage_scheme": "http",
        "dfs_storage_scheme": "http",
    }
    assert delta_options(emulator) == {"AZURE_ALLOW_HTTP": "true"}


def test_a_key_of_azure_in_the_variables_is_used(monkeypatch):
    """Without it pyarrow asks for an identity, which a machine outside Azure does not have."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    files, name = place_of("abfss://lake@acct.dfs.core.windows.net/a/b").filesystem()
    assert name == "lake/a/b"
    other = pafs.AzureFileSystem("acct", account_key="a2V5")
    assert files == other
    assert files != pafs.AzureFileSystem("acct")


def test_a_draft_is_beside(tmp_path):
    assert written(tmp_path, "é").read_text() == "é"
    assert said(OSError("no (Request ID: AB12)\nmore")) == "no"
