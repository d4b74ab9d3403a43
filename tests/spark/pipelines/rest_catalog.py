"""Iceberg's REST catalog on loopback: the routes that an archive asks for, over PyIceberg's SQL.

A request's JSON is PyIceberg's own, and so is what a commit requires; only HTTP is added.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import CommitTableRequest, Table

STATUS = {CommitFailedException: 409, NoSuchNamespaceError: 404, NoSuchTableError: 404}


@contextmanager
def serving(folder: Path, properties: dict[str, str]) -> Iterator[str]:
    """Give the URL of a catalog whose tables are read and written with these properties."""
    uri = f"sqlite:///{folder / 'rest.db'}"
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(get)

        def do_POST(self) -> None:
            self._answer(post)

        def _answer(self, act: Any) -> None:
            size = int(self.headers.get("Content-Length", 0))
            content = self.rfile.read(size)
            path = [unquote(part) for part in self.path.partition("?")[0].split("/")[2:]]
            # SQLite's connections belong to threads.
            catalog = SqlCatalog("rest", uri=uri, warehouse=folder.as_uri(), **properties)
            try:
                with lock:
                    status, body = 200, act(catalog, path, content)
            except tuple(STATUS) as error:
                status = STATUS[type(error)]
                kind = {"message": str(error), "type": type(error).__name__, "code": status}
                body = json.dumps({"error": kind})
            finally:
                catalog.close()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def told(table: Table) -> str:
    """Return a table as the catalog tells of it."""
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return json.dumps({"metadata-location": table.metadata_location, "metadata": metadata})


def get(catalog: SqlCatalog, path: list[str], _: bytes) -> str:
    match path:
        case ["config"]:
            return json.dumps({"defaults": {}, "overrides": {}})
        case ["namespaces", name]:
            found = catalog.load_namespace_properties(name)
            return json.dumps({"namespace": [name], "properties": found})
        case ["namespaces", space, "tables", name]:
            return told(catalog.load_table((space, name)))
    raise AssertionError(path)


def post(catalog: SqlCatalog, path: list[str], content: bytes) -> str:
    match path:
        case ["namespaces"]:
            (name,) = json.loads(content)["namespace"]
            catalog.create_namespace(name)
            return json.dumps({"namespace": [name], "properties": {}})
        case ["namespaces", space, "tables"]:
            asked = CreateTableRequest.model_validate_json(content)
            schema = schema_to_pyarrow(asked.table_schema, include_field_ids=False)
            made = catalog.create_table(
                (space, asked.name), schema, location=asked.location, properties=asked.properties
            )
            return told(made)
        case ["namespaces", space, "tables", name]:
            change = CommitTableRequest.model_validate_json(content)
            table = catalog.load_table((space, name))
            done = catalog.commit_table(table, change.requirements, change.updates)
            return str(done.model_dump_json(by_alias=True))
    raise AssertionError(path)
