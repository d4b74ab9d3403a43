import socket
import ssl
import threading

import pyarrow as pa
import pytest
import trustme
from tests.spark.fake import serving

from leporid.spark import options
from leporid.spark.errors import BrokerError, CutError, OptionError, SparkSourceError
from leporid.spark.http import Pauses, client_for, with_query
from leporid.spark.writer import encoded


def test_what_the_broker_says_of_a_stream(broker, client):
    broker.make("orders", partitions=2)
    broker.append("orders", 3, partition=1)
    assert client.streams() == ["orders"]
    assert client.streams("x.*") == []
    assert [part["end"] for part in client.info("orders")["partitions"]] == [0, 3]
    assert client.offset_for("orders", 0) == {0: 0, 1: 0}


def test_names_are_quoted_in_the_path(broker, client):
    broker.make("a/b ü?")
    assert client.info("a/b ü?")["stream"] == "a/b ü?"


def test_a_connection_is_kept_for_the_next_request(broker, client):
    broker.make("orders")
    client.info("orders")
    client.info("orders")
    assert client._pool.num_connections == 1


def test_a_kept_connection_that_was_closed_is_replaced(broker, client):
    broker.make("orders")
    client.info("orders")
    kept = client._pool._get_conn()
    kept.sock.shutdown(socket.SHUT_RDWR)
    client._pool._put_conn(kept)
    assert client.info("orders")["stream"] == "orders"


def test_a_long_poll_ends_when_something_comes(broker, client):
    broker.make("orders")
    answer = []
    poll = threading.Thread(
        target=lambda: answer.append(client.info("orders", beyond={0: 0}, wait_ms=20_000))
    )
    poll.start()
    while not broker.count("beyond"):
        pass
    broker.append("orders", 1)
    poll.join(timeout=5)
    assert answer[0]["partitions"][0]["end"] == 1


@pytest.mark.parametrize("kind", ["drop", "status", "lose"])
def test_a_question_is_asked_again_while_the_broker_is_away(broker, client, kind):
    broker.make("orders")
    broker.fail(kind, "GET", count=2)
    assert client.info("orders")["stream"] == "orders"


def test_it_is_given_up_in_time_and_says_who_cannot_be_reached(broker, connect):
    broker.make("orders")
    broker.fail("drop", "GET", count=1000)
    with pytest.raises(CutError, match=f"{broker.url}/api/streams/%2F/orders"):
        connect(retryTimeout=1).info("orders")


def test_nobody_listening_is_an_error_with_the_address(connect):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    client = connect(url=url, retryTimeout=1)
    with pytest.raises(CutError, match="cannot be reached: ConnectionRefusedError"):
        client.streams()


def test_a_port_without_tls_is_told_at_once(broker, connect):
    # Tried again, it would take longer than a test may.
    client = connect(url=broker.url.replace("http:", "https:"), retryTimeout=0)
    with pytest.raises(SparkSourceError, match=r"https://.* does not speak TLS: .*http://HOST:156"):
        client.streams()


def test_a_certificate_nobody_trusts_is_told_at_once(connect, tmp_path):
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "empty.pem").touch()
    with serving(tls=tls) as broker:
        # Tried again, it would take longer than a test may.
        with pytest.raises(SparkSourceError, match=r"certificate is not trusted: .* as caFile"):
            connect(url=broker.url, retryTimeout=0).streams()
        assert connect(url=broker.url, caFile=str(tmp_path / "ca.pem")).streams() == []
    for name, why in (("none.pem", "No such file"), ("empty.pem", "it has no certificates")):
        with pytest.raises(OptionError, match=f"option caFile = '.*{name}': {why}"):
            connect(url=broker.url, caFile=str(tmp_path / name))


def test_a_refusal_names_the_user(broker, connect):
    broker.make("orders")
    with pytest.raises(BrokerError, match=r"401.*user 'guest'; options user and passwordEnv"):
        connect(password="wrong").info("orders")
    broker.forbidden.add("orders")
    with pytest.raises(BrokerError, match=r"403.*no read access.*user 'guest' in vhost '/'"):
        connect().info("orders")


def test_rows_without_identity_are_not_sent_twice(broker, client):
    broker.fail("lose", "POST")
    with pytest.raises(SparkSourceError, match="give producer and sequenceColumn"):
        client.publish("e", arrow_rows())
    assert broker.count("publish") == 1


def test_rows_with_identity_are_sent_again_and_told_to_be_duplicates(broker, client):
    broker.make("e")
    broker.bindings["e"] = "e"
    broker.fail("lose", "POST")
    answer = client.publish("e", arrow_rows(), producer="q/0", sequence=0)
    assert answer == {"rows": 2, "accepted": 0, "duplicates": 2, "unroutable": 0, "refused": 0}
    assert broker.streams["e"][0].end == 2


def test_rows_are_sent_again_when_they_cannot_have_arrived(broker, client):
    broker.fail("status", "POST", count=1)
    assert client.publish("e", arrow_rows())["rows"] == 2


def test_an_answer_that_does_not_say_where_it_ends_is_refused(connect):
    """Without chunks or a length the end of the connection would be the end of the answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        client = connect(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        with (
            pytest.raises(CutError, match="does not say where it ends"),
            client.records("s", {}),
        ):
            pass
        thread.join()


def test_a_port_of_amqp_is_told_at_once_with_the_one_that_is_wanted(connect):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"AMQP\0\0\x09\x01")

        thread = threading.Thread(target=answer)
        thread.start()
        client = connect(url=f"http://127.0.0.1:{server.getsockname()[1]}", retryTimeout=600)
        with pytest.raises(SparkSourceError, match=r"a port of AMQP.*http://HOST:15672"):
            client.info("orders")
        thread.join()


@pytest.mark.parametrize("sent", [b"12345", b"1234567890"])
def test_an_answer_shorter_than_announced_is_cut(connect, sent):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + sent)

        thread = threading.Thread(target=answer)
        thread.start()
        client = connect(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        with (
            pytest.raises(CutError, match=r"missing|cut off"),
            client.records("s", {}) as body,
        ):
            body.read(11)
        thread.join()


def test_one_client_for_a_process_and_broker():
    one = options.connection({"url": "http://a:1"}, {})
    same = options.connection({"url": "http://a:1"}, {})
    other = options.connection({"url": "http://a:1", "user": "u"}, {})
    assert client_for(one) is client_for(same)
    assert client_for(one) is not client_for(other)


def test_pauses_end():
    pauses = Pauses(0.05)
    count = 0
    while pauses.pause(CutError("away")):
        count += 1
    assert 1 <= count < 10


def test_a_broker_that_stays_away_is_told_of_now_and_then(monkeypatch, caplog):
    now = [1000.0]
    monkeypatch.setattr("leporid.spark.http.time.monotonic", lambda: now[0])
    monkeypatch.setattr("leporid.spark.http.time.sleep", lambda seconds: None)
    pauses = Pauses(0)
    for _ in range(100):
        assert pauses.pause(CutError("away"))
        now[0] += 1
    told = [record.message for record in caplog.records]
    assert told == [
        f"away; failing for {seconds} s, trying again without end" for seconds in (0, 30, 60, 90)
    ]
    pauses.succeeded()
    pauses.pause(CutError("away again"))
    assert caplog.records[-1].message.startswith("away again; failing for 0 s")


def test_parameters_are_quoted_and_nothing_is_left_out():
    assert with_query("/x", {"a": "ü&", "b": None, "c": 0}) == "/x?a=%C3%BC%26&c=0"


def arrow_rows() -> bytes:
    return encoded(pa.RecordBatch.from_pydict({"body": [b"1", b"2"]}))
