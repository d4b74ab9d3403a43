"""The web UI's files over HTTP, from memory.

Responsible for `/` and `/ui/…`: media types, compression, revalidation, and what a browser lets
these pages do. Must not know what is in the files, nor users: whoever reaches the port may read
them, and nothing in them is secret.

Invariants: the files are those that were in the folder at the start; each is answered under exactly
its own path, so that no path leads out of the folder. A module that a page loads later is of the
same version as the page: the index names all files under a path that has their hash, which is gone
when the broker has others.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.management.paths import CostedRoute, ProbeRoute
from leporid.webui import FOLDER

INDEX: Final = "index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""What is answered; other files of the folder are not."""

# Nothing inline, nothing of another place, no frame around it. Styles that a script sets on an
# element (CSSOM) are no inline styles.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
REVALIDATED: Final = "no-cache"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""For a path that has the hash of the files; a year, as RFC 9111 knows no end."""

HASH_CHARACTERS: Final = 16
COMPRESSION: Final = 9


@dataclass(frozen=True, slots=True)
class _File:
    """One file.

    Attributes:
        media_type: of the content.
        plain: the content.
        packed: the same, compressed; None: that would not be smaller, or was not done yet.
        tag: the entity tag of `plain`.
        packed_tag: that of `packed`; the two are different answers (RFC 9110, 8.8.3).
    """

    media_type: str
    plain: bytes
    packed: bytes | None
    tag: str
    packed_tag: str


def _file(name: str, content: bytes) -> _File:
    digest = hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]
    media_type = MEDIA_TYPES[Path(name).suffix]
    return _File(media_type, content, None, f'"{digest}"', f'"{digest}-gzip"')


@functools.cache
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, COMPRESSION, mtime=0)


def _packed(file: _File) -> _File:
    packed = _compressed(file.plain)
    return replace(file, packed=packed if len(packed) < len(file.plain) else None)


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files that are answered, by their paths in the folder with slashes."""
    return {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.suffix in MEDIA_TYPES and each.is_file()
    }


def version_of(files: Mapping[str, bytes]) -> str:
    """Return the hash of all files and their paths."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(b"%d %b %d " % (len(name.encode()), name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()[:HASH_CHARACTERS]


@functools.cache
def _files_of(folder: Path) -> tuple[str, Mapping[str, _File]]:
    """Return the hash of all files in a folder, and the files by name, as they are at first."""
    found = read_folder(folder)
    version = version_of(found)
    files = {name: _file(name, content) for name, content in found.items()}
    if INDEX in found:
        versioned = found[INDEX].replace(b'"ui/', b'"ui/%b/' % version.encode())
        files[INDEX] = _file(INDEX, versioned)
    return version, files


class WebPages:
    """The files.

    Args:
        folder: where they are.

    Attributes:
        version: the hash of all of them.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.version, self._files = _files_of(folder)

    def __repr__(self) -> str:
        return f"<WebPages {self.version}: {len(self._files)} files>"

    def pack(self) -> None:
        """Compress them, once; takes some 50 ms, on any thread."""
        self._files = {name: _packed(file) for name, file in self._files.items()}

    def routes(self) -> list[CostedRoute]:
        """Return the routes; none if there is no page."""
        if INDEX not in self._files:
            return []
        return [ProbeRoute("/", self.index), ProbeRoute("/ui/{path:path}", self.file)]

    async def index(self, request: Request) -> Response:
        """GET /: the page."""
        return _answer(request, self._files[INDEX], REVALIDATED)

    async def file(self, request: Request) -> Response:
        """GET /ui/{path}: a file, also as /ui/HASH/{path} with the hash of all files."""
        path = request.path_params["path"]
        version, _, rest = path.partition("/")
        cached = REVALIDATED
        if version == self.version:
            path, cached = rest, IMMUTABLE
        found = self._files.get(path)
        if found is None:
            return Response(
                "There is no such file of the web UI. Load the page again: the broker may have "
                "another version of it now.\n",
                404,
                {**SECURITY, "cache-control": "no-store"},
                "text/plain",
            )
        return _answer(request, found, cached)


def _answer(request: Request, file: _File, cached: str) -> Response:
    content, tag = file.plain, file.tag
    headers = {**SECURITY, "cache-control": cached, "vary": "accept-encoding"}
    if file.packed is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        content, tag = file.packed, file.packed_tag
        headers["content-encoding"] = "gzip"
    headers["etag"] = tag
    if _has(request.headers.get("if-none-match", ""), tag):
        headers.pop("content-encoding", None)
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Say whether an answer may be compressed (RFC 9110, 12.5.3)."""
    for each in accepted.split(","):
        coding, _, weight = each.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


def _has(tags: str, tag: str) -> bool:
    """Say whether a browser has an answer already (RFC 9110, 13.1.2)."""
    return tags.strip() == "*" or tag in (
        each.strip().removeprefix("W/") for each in tags.split(",")
    )
