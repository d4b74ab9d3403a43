"""Archives in the catalog of a Hive metastore: the real one, of the jars that come with PySpark.

It runs in the Java of the tests' session, over Derby in memory. Its own `main` would listen on all
addresses, so that its server is put together here.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipelines.stores import committed, ends, files

pytest.importorskip("pyiceberg")
pytest.importorskip("thrift")

from leporid.spark.pipelines import iceberg_store
from leporid.spark.pipelines.iceberg_store import IcebergStore
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.store import ConflictError, Layout, StoreError, open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "NONE",
    "hive.metastore.schema.verification": "false",
}


@pytest.fixture(scope="module")
def metastore(spark_session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the URI of a metastore."""
    folder = tmp_path_factory.mktemp("metastore")
    jvm = spark_session._jvm
    hive, thrift = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(folder / "derby.log"))
    conf = hive.conf.HiveConf()
    for name, value in (SETTINGS | {"hive.metastore.warehouse.dir": str(folder)}).items():
        conf.set(name, value)
    store = hive.metastore.HiveMetaStore
    handler = store.newRetryingHMSHandler(store.HMSHandler("tests", conf, False), conf)
    hive.metastore.txn.TxnDbUtil.prepDb(conf)
    listener = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    settings = thrift.server.TThreadPoolServer.Args(listener)
    processor = hive.metastore.api.ThriftHiveMetastore.Processor(handler)
    server = thrift.server.TThreadPoolServer(settings.processor(processor))
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield f"thrift://127.0.0.1:{listener.getServerSocket().getLocalPort()}"
    server.stop()
    thread.join()


@pytest.fixture
def layout(metastore: str) -> Layout:
    # The metastore of PySpark's jars is a Hive 2.
    options = {"type": "hive", "uri": metastore, "hive.hive2-compatible": "true"}
    return Layout(catalog="everybodys", table="sales.orders", options=options)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "orders")


def test_a_metastore_has_the_table_under_its_name(place, layout):
    store = open_store(place, "iceberg", layout)
    store.check()
    assert store.ends() == {}
    for at in range(4):
        store.commit(files(store, at, 1), ends(at) if at else {}, ends(at + 1))
    assert store.compact(2, 10**8) == 4
    assert store.ends() == ends(4)
    catalog = iceberg_store.catalog_of("everybodys", dict(layout.options))
    other = catalog.load_table(layout.table)
    assert sorted(other.scan().to_arrow().column("offset").to_pylist()) == list(range(4))
    catalog.drop_table(layout.table)


def test_a_metastore_takes_one_of_two_commits(place, layout, monkeypatch):
    monkeypatch.setattr(iceberg_store, "check_position", lambda *position: None)
    store, other = IcebergStore(place_of(place), layout), IcebergStore(place_of(place), layout)
    store.commit(files(store, 0, 10), {}, ends(10))
    stale = other.table()
    monkeypatch.setattr(other, "table", lambda: stale)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError, match="another process"):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(15))
    iceberg_store.catalog_of("everybodys", dict(layout.options)).drop_table(layout.table)


def test_a_metastore_that_is_away_is_told_in_a_sentence(place):
    options = {"type": "hive", "uri": "thrift://127.0.0.1:1"}
    layout = Layout(catalog="everybodys", table="sales.orders", options=options)
    with pytest.raises(StoreError, match=r"everybodys.*127\.0\.0\.1"):
        open_store(place, "iceberg", layout).check()
