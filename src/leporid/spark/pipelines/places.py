"""Where an archive lies: a folder of a file system, or a prefix in an object store.

Responsible for names and for bytes, by pyarrow's file systems. Must not know tables nor Spark.

Who may read and write an object store is said where that store's own tools say it: variables
(`AWS_ACCESS_KEY_ID`, `AZURE_STORAGE_ACCOUNT_KEY`, …), a profile, or the machine's role. So no
secret is in a plan, in a task of Spark's, or in a process list.

Invariant: what `write` and a writer of `create` have put into a folder is on disk when `sync` has
returned; an object of a store is there as a whole, or not at all.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from leporid.spark.errors import OptionError, SparkSourceError

# What pyarrow, deltalake and pyiceberg all can write to; Hadoop's names of S3 mean S3.
SCHEMES = ("s3", "gs", "abfss")
HADOOP_S3 = {"s3a": "s3", "s3n": "s3"}
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]+)(?:/([^?#]*))?")
# For how long Google's library tries a request again; its own default is a quarter of an hour. The
# runner tries a step again.
GOOGLE_RETRY = timedelta(seconds=30)
# What `Path` makes of a URL.
CRIPPLED = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:/[^/]")


class PlaceError(SparkSourceError):
    """A place cannot be read, or not written to."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, or a prefix in an object store.

    Attributes:
        text: an absolute path, or a URL without a slash at its end.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.text.rstrip('/')}/{name}")

    @property
    def path(self) -> Path | None:
        """The folder; None in an object store."""
        return None if "://" in self.text else Path(self.text)

    @property
    def uri(self) -> str:
        """As a URL in either case."""
        return self.text if self.path is None else self.path.as_uri()

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    def with_suffix(self, suffix: str) -> Place:
        """Return the neighbour whose name has something appended."""
        return Place(self.text + suffix)

    def filesystem(self) -> tuple[pafs.FileSystem, str]:
        """Return how pyarrow reaches it, and its name there."""
        if self.path is not None:
            return pafs.LocalFileSystem(), self.text
        scheme, _, rest = self.text.partition("://")
        if scheme == "s3":
            return pafs.S3FileSystem(**s3_arguments(os.environ)), rest
        if scheme == "abfss":
            container, _, rest = rest.partition("@")
            host, _, rest = rest.partition("/")
            account, _, domain = host.partition(".")
            files = pafs.AzureFileSystem(account, **azure_arguments(os.environ, domain))
            return files, f"{container}/{rest}"
        return pafs.GcsFileSystem(retry_time_limit=GOOGLE_RETRY), rest

    def read(self) -> bytes | None:
        """Return an object's bytes; None if there is none.

        Raises:
            PlaceError: the store refuses, or cannot be reached.
        """
        files, name = self.filesystem()
        try:
            # Where nobody may, pyarrow 26 ends the process as it opens an object of Azure's; who
            # only looks gets an error.
            if files.type_name == "abfs":
                files.get_file_info(name)
            with files.open_input_stream(name) as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise PlaceError(f"{self} cannot be read: {said(error)}") from None

    def write(self, content: bytes) -> None:
        """Replace an object or a file by these bytes: all of them, on disk, or nothing.

        Raises:
            PlaceError: the store refuses, or cannot be reached.
        """
        files, name = self.filesystem()
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                written(self.path.parent, content).replace(self.path)
                sync(self.path.parent)
                return
            with files.open_output_stream(name) as file:
                file.write(content)
        except (OSError, pa.ArrowException) as error:
            raise PlaceError(f"{self} cannot be written: {said(error)}") from None

    def remove(self) -> None:
        """Remove a file or an object; who may not remove leaves it there."""
        files, name = self.filesystem()
        with contextlib.suppress(OSError):
            files.delete_file(name)

    def names(self) -> list[str]:
        """Return what is directly in it; nothing if it is not there.

        Raises:
            PlaceError: the store refuses, or cannot be reached.
        """
        files, name = self.filesystem()
        try:
            found = files.get_file_info(pafs.FileSelector(name, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise PlaceError(f"{self} cannot be listed: {said(error)}") from None
        return [each.base_name for each in found]

    def check(self, probe: str) -> None:
        """Refuse a place that cannot be written to; leave nothing there.

        Args:
            probe: the name of an object to try it with; a folder is only looked at.

        Raises:
            PlaceError: why.
        """
        if self.path is None:
            (self / probe).write(b"")
            (self / probe).remove()
            return
        there = next(each for each in (self.path, *self.path.parents) if each.exists())
        if not there.is_dir():
            raise PlaceError(f"{self} cannot be written: {there} is no folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PlaceError(f"{self} cannot be written: no right to write to {there}")

    def make(self) -> None:
        """Make the folder; an object store has none."""
        if self.path is not None:
            self.path.mkdir(parents=True, exist_ok=True)


def check_file(path: Path) -> None:
    """Refuse a file of the local file system that cannot be written, or replaced.

    Raises:
        PlaceError: why.
    """
    if path.is_dir():
        raise PlaceError(f"{path} cannot be written: it is a folder")
    place_of(path.parent if path.exists() else path).check("")


def place_of(given: str | Path | Place) -> Place:
    """Return a place by its path or URL.

    Raises:
        OptionError: it is a URL that cannot be used.
    """
    if isinstance(given, Place):
        return given
    text = str(given)
    if isinstance(given, Path) and CRIPPLED.match(text):
        raise OptionError(f"{text} is a URL that was made a path: give it as a text")
    if "://" not in text:
        return Place(str(Path(text).expanduser().absolute()))
    scheme, _, rest = text.partition("://")
    if scheme == "file":
        return Place(str(Path("/" + rest.lstrip("/"))))
    scheme = HADOOP_S3.get(scheme, scheme)
    if scheme not in SCHEMES:
        raise OptionError(
            f"{text}: archives are in a folder, or at s3://, gs:// or abfss://, not at {scheme}://"
        )
    match = URL.fullmatch(f"{scheme}://{rest}".rstrip("/"))
    if match is None or not match[3]:
        raise OptionError(
            f"{text}: an archive needs a bucket and a prefix of its own: {scheme}://BUCKET/PREFIX"
        )
    if ":" in match[2]:
        # It is not repeated, as it may be a secret.
        raise OptionError(
            f"a URL of {scheme}:// has no keys: they are in variables, such as "
            f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in a profile"
        )
    return Place(match[0])


def s3_arguments(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what pyarrow has to be told of S3; it finds credentials by itself."""
    found = {}
    endpoint = s3_endpoint(environ)
    if endpoint is not None:
        scheme, _, host = endpoint.rpartition("://")
        found = {"endpoint_override": host, "scheme": scheme or "https"}
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return found | ({"region": region} if region else {})


def s3_endpoint(environ: Mapping[str, str]) -> str | None:
    """Return where S3 is if it is not Amazon's, by the variables that Amazon's tools have."""
    found = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    return found.rstrip("/") if found else None


def azure_arguments(environ: Mapping[str, str], domain: str = "") -> dict[str, str]:
    """Return what pyarrow has to be told of Azure's storage.

    Without a key or a token it finds credentials by itself: a service principal in variables, or
    the machine's identity.

    Args:
        environ: variables, with the names that deltalake reads as well.
        domain: what follows the account's name in a URL; other clouds have others.
    """
    found = {}
    key = environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    token = environ.get("AZURE_STORAGE_SAS_TOKEN")
    if key:
        found["account_key"] = key
    elif token:
        found["sas_token"] = token
    endpoint = environ.get("AZURE_STORAGE_ENDPOINT")
    if endpoint:
        scheme, _, rest = endpoint.rpartition("://")
        # An emulator has the account's name behind the host, where pyarrow puts it by itself.
        authority = rest.partition("/")[0]
        scheme = scheme or "https"
    elif domain:
        scheme, authority = "https", f".{domain}"
    else:
        return found
    return found | {
        "blob_storage_authority": authority.replace(".dfs.", ".blob.", 1),
        "dfs_storage_authority": authority.replace(".blob.", ".dfs.", 1),
        "blob_storage_scheme": scheme,
        "dfs_storage_scheme": scheme,
    }


def delta_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what deltalake has to be told of a store, besides what it finds by itself.

    It takes plain HTTP only if told so. Commits are conditional writes (`If-None-Match: *`), which
    is its default; who has set another way, such as a lock in DynamoDB, keeps that.
    """
    endpoint = s3_endpoint(environ)
    azure = environ.get("AZURE_STORAGE_ENDPOINT", "")
    found = {} if endpoint is None else {"AWS_ENDPOINT_URL": endpoint}
    if endpoint is not None and endpoint.startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    if azure.startswith("http://"):
        found["AZURE_ALLOW_HTTP"] = "true"
    return found


def iceberg_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what pyiceberg has to be told of S3; credentials are found as pyarrow finds them."""
    endpoint = s3_endpoint(environ)
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    found = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in found.items() if value}


def said(error: BaseException) -> str:
    """Return the first line of what a file system says, without the number of a request."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r" \(Request ID: \w*\)", "", line)


def sync(path: Path) -> None:
    """Write a file's content, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def written(folder: Path, content: str | bytes) -> Path:
    """Write a draft, on disk when this returns."""
    path = folder / f".draft-{uuid.uuid4().hex}"
    with path.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    return path
