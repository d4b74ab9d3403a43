"""Archives in an object store, and in catalogs that others have, too: against moto on loopback.

One server for all of the module. Glue's tables and S3's objects are moto's; a REST catalog is
`rest_catalog`.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipelines import rest_catalog
from tests.spark.pipelines.stores import committed, ends, files

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("moto")

from leporid.spark.errors import OptionError
from leporid.spark.pipelines import archive as archive_module
from leporid.spark.pipelines import delta_store, iceberg_store
from leporid.spark.pipelines.archive import Archive, Plan
from leporid.spark.pipelines.bodies.columns import struct_of
from leporid.spark.pipelines.bodies.decoder import Body
from leporid.spark.pipelines.delta_store import DeltaStore
from leporid.spark.pipelines.files import DataFile
from leporid.spark.pipelines.iceberg_store import IcebergStore
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.places import PlaceError, place_of
from leporid.spark.pipelines.reprocess import Reprocess
from leporid.spark.pipelines.store import (
    ConflictError,
    Layout,
    StoreError,
    bad_place,
    existing,
    open_store,
)
from leporid.spark.pipelines.table import table
from leporid.spark.pipelines.tasks import BAD, FILE, GOOD, Job, _first

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


# deltalake waits for answers without letting other threads run, so the server is another process.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Give the URL of an object store with the bucket `lake`; it is what the variables name."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/lake", method="PUT")).close()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (KEYS | {"AWS_ENDPOINT_URL": url}).items():
                patch.setenv(name, value)
            yield url
        server.stdin.close()


@pytest.fixture
def place(s3, request) -> str:
    return f"s3://lake/{request.node.name.translate(str.maketrans('[]', '__'))}"


@pytest.fixture(params=["glue", "rest"])
def layout(request, s3, tmp_path) -> Iterator[Layout]:
    """Gives a catalog's table, whose name no other test has."""
    name = f"sales.{request.node.name.translate(str.maketrans('[]', '__'))}".lower()
    if request.param == "glue":
        options = {"type": "glue", "glue.endpoint": s3, "glue.region": "us-east-1"}
        yield Layout(catalog="everybodys", table=name, options=options)
        return
    objects = {"s3.endpoint": s3, "s3.region": "us-east-1"}
    with rest_catalog.serving(tmp_path, objects) as url:
        yield Layout(catalog="everybodys", table=name, options={"uri": url})


def test_delta_commits_to_an_object_store(place):
    store = open_store(place, "delta")
    assert store.state() == ([], {})
    store.check()
    for at in range(4):
        store.commit(files(store, at, 1), ends(at) if at else {}, ends(at + 1))
    assert store.compact(2, 10**8) == 4
    assert store.vacuum(3600) == 0
    assert committed(open_store(place, "delta")) == list(range(4))
    assert store.ends() == ends(4)


def test_of_two_writers_to_an_object_store_one_is_refused(place, monkeypatch):
    """Both have seen the same version: only a conditional write tells that its name was taken."""
    monkeypatch.setattr(delta_store, "check_position", lambda *position: None)
    store, other = DeltaStore(place_of(place)), DeltaStore(place_of(place))
    store.commit(files(store, 0, 10), {}, ends(10))
    stale = other._table()
    monkeypatch.setattr(other, "_table", lambda: stale)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError, match="another process"):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(15))


def test_a_catalog_has_the_table_under_its_name(place, layout):
    store = open_store(place, "iceberg", layout)
    store.check()
    assert store.ends() == {}
    for at in range(4):
        store.commit(files(store, at, 1), ends(at) if at else {}, ends(at + 1))
    assert store.compact(2, 10**8) == 4
    assert store.ends() == ends(4)
    other = iceberg_store.catalog_of("everybodys", dict(layout.options)).load_table(layout.table)
    assert sorted(other.scan().to_arrow().column("offset").to_pylist()) == list(range(4))
    assert other.location() == place
    assert [field.name for field in other.spec().fields] == ["day"]


def test_a_catalog_takes_one_of_two_commits(place, layout, monkeypatch):
    monkeypatch.setattr(iceberg_store, "check_position", lambda *position: None)
    store, other = IcebergStore(place_of(place), layout), IcebergStore(place_of(place), layout)
    store.commit(files(store, 0, 10), {}, ends(10))
    stale = other.table()
    monkeypatch.setattr(other, "table", lambda: stale)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError, match="another process"):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(15))


@pytest.mark.spark
def test_a_stream_is_archived_to_an_object_store_and_read_from_it(
    spark_session, broker, place, monkeypatch
):
    spark = spark_session
    for name in (*KEYS, "AWS_ENDPOINT_URL"):
        # As spark.executorEnv sets them for the tasks.
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    options = {"url": broker.url}
    broker.make("s", 2)
    for part in range(2):
        bodies = [b'{"id": %d}' % (100 * part + number) for number in range(30)]
        bodies[3] = b"nope"
        broker.append("s", 30, part, body=bodies)
    pipeline = Archive(spark, Origin("s", options), Plan(place, schema="id bigint"))
    pipeline.check()
    assert pipeline.step().put_aside == 2
    # A file of before has not the fields that were added later.
    broker.append("s", 1, 0, body=[b'{"id": 30, "name": "n"}'])
    wider = Archive(spark, Origin("s", options), Plan(place, schema="id bigint, name string"))
    assert wider.step().rows == 1
    broker.append("s", 1, 0, body=[b'{"id": 31, "name": "m"}'])
    whole = table(spark, "s", place, options=options, include_bad=True)
    rows = whole.select("value.id", "value.name", "bad_reason").collect()
    expected = [(number, None, None) for number in range(130) if number % 100 < 30]
    good = [row for row in expected if row[0] % 100 != 3] + [(30, "n", None), (31, "m", None)]
    assert sorted(row for row in rows if row.id is not None) == sorted(good)
    assert [tuple(row) for row in rows if row.id is None] == [(None, None, "not JSON")] * 2


def write_here(spark: Any, job: Job, ranges: Any, tasks: int | None = None) -> Any:
    """Do in this process what Spark's tasks do; `json-schema` leaves nothing to Spark's own."""
    found: dict[str, list[DataFile]] = {GOOD: [], BAD: []}
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(ranges)))})
    for batch in _first(job, ranges)([numbers]):
        for kind, file in map(json.loads, batch.column(FILE).to_pylist()):
            found[kind].append(DataFile(**file))
    return found[GOOD], found[BAD]


def test_reprocess_beside_archive_loses_and_doubles_nothing(place, broker, tmp_path, monkeypatch):
    """In threads, with steps as small as they get, no lock, and kills between the two commits."""
    monkeypatch.setattr("leporid.spark.pipelines.tasks.write", write_here)
    monkeypatch.setattr(archive_module, "arrow_columns", struct_of)
    monkeypatch.setattr("leporid.spark.pipelines.reprocess.STEP_FILES", 2)
    schemas, schema = tmp_path / "schemas", '{"properties": {"id": {"type": "integer"}}}'
    schemas.mkdir()
    (schemas / "s.json").write_text(schema)
    broker.make("s")
    count = 24
    for at in range(count):
        named = [("schema.id", "late")] if at % 3 == 0 else []
        broker.append("s", 1, body=[b'{"id": %d}' % at], headers=named)
    body = Body("json-schema", schemas=str(schemas))
    plan = Plan(place, body=body, commit_rows=3, compact_files=0, reader_name="")
    run = Archive(None, Origin("s", {"url": broker.url}), plan)
    run.spark = broker
    for _ in range(2):
        assert run.step().put_aside
    (schemas / "late.json").write_text(schema)
    kills = [1, 1]
    replace = DeltaStore.replace

    def killed_first(store: DeltaStore, *given: Any) -> None:
        if kills and store.root == bad_place(place):
            kills.pop()
            raise ConflictError("killed")
        replace(store, *given)

    monkeypatch.setattr(DeltaStore, "replace", killed_first)
    monkeypatch.setattr("leporid.spark.pipelines.reprocess.ATTEMPTS_MAX", 1, raising=False)
    refused: list[Exception] = []
    ended = threading.Event()

    def insist(step: Any) -> Any:
        try:
            return step()
        except ConflictError as error:
            refused.append(error)
            return None

    def reprocess() -> None:
        again = Reprocess(place)
        while not ended.is_set():
            insist(again.step)

    worker = threading.Thread(target=reprocess)
    worker.start()
    try:
        while (done := insist(run.step)) is None or done.lag:
            pass
    finally:
        ended.set()
        worker.join()
    while Reprocess(place).step().note[0] != "0":
        pass
    assert Counter(committed(existing(place)[0])) == Counter(range(count)), refused
    assert committed(existing(bad_place(place))[0]) == []
    assert not kills


def test_what_an_object_store_refuses_is_told_before_spark_starts(s3, broker, tmp_path):
    broker.make("s")
    origin = Origin("s", {"url": broker.url})
    with pytest.raises(PlaceError, match=r"s3://nobodys/a/_leporid/probe cannot be written: .*NO_"):
        Archive(None, origin, Plan("s3://nobodys/a")).check()
    layout = Layout(catalog="c", table="a.b", options={"uri": "http://127.0.0.1:1"})
    with pytest.raises(StoreError, match=r"catalog 'c': .*refused"):
        Archive(None, origin, Plan(tmp_path, "iceberg", layout=layout)).check()


@pytest.mark.parametrize(
    ("place", "kind", "layout", "told"),
    [
        ("hdfs://a/b", "delta", {}, "not at hdfs://"),
        ("s3://lake", "delta", {}, "needs a bucket and a prefix"),
        ("s3a://lake/a?region=x", "delta", {}, "needs a bucket and a prefix"),
        ("s3://lake/a", "iceberg", {}, "needs a catalog"),
        ("s3://lake/a", "delta", {"catalog": "c", "table": "a.b"}, "are for Iceberg"),
        ("a", "iceberg", {"catalog": "c"}, "needs a name NAMESPACE.NAME"),
        ("a", "iceberg", {"table": "a.b"}, "need the catalog's name"),
        ("a", "iceberg", {"catalog": "c", "table": "b"}, "needs a name NAMESPACE.NAME"),
        (
            "a",
            "iceberg",
            {"catalog": "c", "table": "a.b", "options": {"s3.secret-access-key": "x"}},
            "'s3.secret-access-key' is a secret: keep it in ~/.pyiceberg.yaml",
        ),
        (
            "a",
            "iceberg",
            {"catalog": "c", "table": "a.b", "options": {"uri": "postgresql://u:p@h/d"}},
            "'uri' is a secret",
        ),
        (
            "a",
            "iceberg",
            {"catalog": "c", "table": "a.b", "options": {"uri": "postgresql://h/d?password=p"}},
            "'uri' is a secret",
        ),
        (
            "a",
            "iceberg",
            {"catalog": "c", "table": "a.b", "options": {"header.Authorization": "Bearer x"}},
            "'header.Authorization' is a secret",
        ),
        ("a", "delta", {"partition_by": ("dat",)}, "by 'dat'; did you mean \"date\""),
        ("a", "delta", {"partition_by": ("value.offset",)}, "would hide the column"),
        ("a", "iceberg", {"partition_by": ("value.x",)}, "take one of these, or Delta"),
        ("a", "delta", {"partition_by": ("date", "date")}, "name each once"),
    ],
)
def test_what_does_not_go_together_is_refused(place, kind, layout, told):
    with pytest.raises(OptionError, match=told):
        open_store(place, kind, Layout(**layout))


def test_a_catalog_is_one_of_pyicebergs_configuration(monkeypatch):
    with pytest.raises(OptionError, match=r"catalog 'nobodys' is in none of ~/.pyiceberg.yaml"):
        iceberg_store.catalog_of("nobodys", {})
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.hive", None)  # as if it lacked thrift
    with pytest.raises(OptionError, match=r"catalog 'hive': .*pip install 'pyiceberg\[hive\]'"):
        iceberg_store.catalog_of("hive", {"uri": "thrift://127.0.0.1:1"})


def test_a_url_that_was_made_a_path_is_refused():
    from pathlib import Path

    with pytest.raises(OptionError, match="give it as a text"):
        place_of(Path("s3://lake/a"))
