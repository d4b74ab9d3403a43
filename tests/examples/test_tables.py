"""The examples that read a stream as a table: they are run, over a real broker."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pyarrow.dataset as ds
import pytest

from leporid.testing import BrokerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 170

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with three orders of two customers, and a body that is none."""
    with BrokerProcess(tmp_path_factory.mktemp("tables") / "data") as broker:
        parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
            for customer, amount in (("ann", 1.5), ("bob", 2), ("ann", 3)):
                body = f'{{"id": 1, "customer": "{customer}", "amount": {amount}}}'
                channel.basic_publish("", "orders", body.encode())
            channel.basic_publish("", "orders", b"no order")
        yield broker
        assert broker.stop() == 0, broker.log_tail()


def run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("library", ["duckdb", "polars"])
def test_a_stream_is_summed_up(broker, library):
    pytest.importorskip(library)
    program = EXAMPLES / "tables" / f"read_{library}.py"
    said = run(sys.executable, str(program), f"http://127.0.0.1:{broker.http_port}", "orders")
    row = next(line for line in said.splitlines() if line.strip("│| ").startswith("orders"))
    assert {"4", "3"} <= set(row.replace("┆", "│").replace(" ", "").split("│"))


@pytest.mark.spark
def test_declarative_pipelines_make_bronze_silver_and_gold(broker, tmp_path):
    program = Path(sys.executable).with_name("spark-pipelines")
    if not program.exists():
        pytest.skip("this PySpark has no Declarative Pipelines")
    from leporid.spark.session import prepare_environment

    project = tmp_path / "medallion"
    shutil.copytree(EXAMPLES / "medallion", project)
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("file:///tmp/leporid-medallion", f"{tmp_path.as_uri()}/storage")
    spec.write_text(text)
    environment = dict(os.environ)
    prepare_environment(environment)
    environment["LEPORID_URL"] = f"http://127.0.0.1:{broker.http_port}"
    environment["SPARK_CONF_DIR"] = str(project / "conf")
    run(str(program), "run", cwd=project, **environment)
    gold = ds.dataset(project / "warehouse" / "gold").to_table().to_pylist()
    assert sorted((row["customer"], row["orders"], row["amount"]) for row in gold) == [
        ("ann", 2, 4.5),
        ("bob", 1, 2.0),
    ]
