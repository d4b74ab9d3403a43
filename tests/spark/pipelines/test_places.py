"""Places on a disk; those in an object store are in test_object_stores.py."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pyarrow.fs as pafs
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from leporid.spark.errors import OptionError
from leporid.spark.pipelines import places
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


NOBODY = """
from leporid.spark.pipelines.places import PlaceError, place_of
try:
    place_of("abfss://c@account.dfs.core.windows.net/x").read()
except PlaceError as error:
    print(error)
"""
# Who may is asked at a port where nobody listens.
NOWHERE = {
    "AZURE_TENANT_ID": "11111111-2222-4333-8444-555555555555",
    "AZURE_CLIENT_ID": "nobody",
    "AZURE_CLIENT_SECRET": "wrong",
    "AZURE_AUTHORITY_HOST": "https://127.0.0.1:1/",
    "IDENTITY_ENDPOINT": "",
}


@pytest.mark.slow
def test_azure_without_an_identity_is_a_sentence_and_no_end_of_the_process():
    """pyarrow ends the process where it opens an object and may not."""
    ran = subprocess.run(
        [sys.executable, "-c", NOBODY],
        env=os.environ | NOWHERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "abfss://c@account.dfs.core.windows.net/x cannot be read: " in ran.stdout
    assert "Failed to get token from DefaultAzureCredential" in ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_googles_store_is_not_asked_without_end(monkeypatch, tmp_path):
    """Its library tries for a quarter of an hour, and says nothing meanwhile."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "client_email": "nobody@example.com",
        "private_key_id": "1",
        "private_key": text.decode(),
        # Nobody listens there.
        "token_uri": "http://127.0.0.1:1/token",
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setattr(places, "GOOGLE_RETRY", timedelta(milliseconds=100))
    with pytest.raises(PlaceError, match=r"^gs://lake/x cannot be read: .*Retry policy exhausted"):
        place_of("gs://lake/x").read()
