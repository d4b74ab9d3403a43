"""`leporid users`, `permissions`, `topic-permissions` and `whoami` against a broker."""

import pika
import pytest


@pytest.fixture
def user(leporid, name):
    made = name("u")
    leporid("users", "add", made, "--new-password", "first", "--tags", "management")
    yield made
    leporid("users", "delete", made, "--yes")


def logs_in(broker, user: str, password: str) -> bool:
    credentials = pika.PlainCredentials(user, password)
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials)
    try:
        pika.BlockingConnection(parameters).close()
    except pika.exceptions.AMQPError:
        return False
    return True


def test_users(leporid, user, shared_broker, tmp_path):
    leporid("permissions", "set", user, ".*", "", "^in")
    assert logs_in(shared_broker, user, "first")
    file = tmp_path / "password"
    file.write_text("second\n")
    leporid("users", "set", user, "--new-password-file", str(file))
    assert logs_in(shared_broker, user, "second")
    assert not logs_in(shared_broker, user, "first")
    leporid("users", "set", user, "--tags", "managment,team-a")
    assert leporid.error == (
        "leporid: the tag 'managment' gives no right; did you mean \"management\"?\n"
    )
    leporid("users", "set", user, "--tags", "monitoring")
    assert not leporid.error
    assert logs_in(shared_broker, user, "second"), "new tags leave the password"
    shown = leporid.json("users", "show", user)
    assert shown["permissions"] == {"/": ".*  ^in"}
    assert "password_hash" not in shown
    assert {"name": user, "tags": "monitoring"} in leporid.rows("users", "list")


def test_a_user_that_is_there_keeps_its_password(leporid, user, shared_broker):
    leporid("permissions", "set", user, "", "", "")
    leporid("users", "add", user, "--new-password", "other", code=1)
    assert leporid.error == (
        f"leporid: user '{user}' is there already: leporid users set changes it\n"
    )
    assert logs_in(shared_broker, user, "first")
    leporid("users", "add", user, "--new-password", "other", "--update")
    assert logs_in(shared_broker, user, "other")


def test_a_password_is_not_asked_of_nobody(leporid, name):
    leporid("users", "add", name("u"), code=2)
    assert "give --new-password-file" in leporid.error
    leporid("users", "add", name("u"), "--new-password", "a", "--new-password-env", "B", code=2)
    leporid("users", "add", name("u"), "--new-password-env", "NOT_SET", code=1)
    assert "NOT_SET" in leporid.error


def test_a_user_without_a_password(leporid, name, shared_broker):
    user = name("u")
    leporid("users", "add", user, "--no-password")
    assert not logs_in(shared_broker, user, "")
    leporid("users", "delete", user, "--yes")
    leporid("users", "show", user, code=3)


def test_users_who_can_enter_nothing(leporid, user):
    assert user in leporid("users", "list", "--without-permissions", "--quiet").split()
    leporid("permissions", "set", user, ".*", "", "")
    assert user not in leporid("users", "list", "--without-permissions", "--quiet").split()


def test_permissions(leporid, user):
    leporid("permissions", "set", user, "^$", "^orders$", "^receipts")
    (row,) = leporid.rows("permissions", "list", "--of", user)
    assert row == {
        "vhost": "/", "user": user, "configure": "^$", "write": "^orders$", "read": "^receipts",
    }  # fmt: skip
    leporid("permissions", "delete", user, code=2)
    leporid("permissions", "delete", user, "--yes")
    assert leporid.rows("permissions", "list", "--of", user) == []
    leporid("permissions", "set", user, "(", "", "", code=1)
    assert leporid.error.count("\n") == 1


def test_topic_permissions(leporid, user):
    leporid("topic-permissions", "set", user, "amq.topic", "^a", "^b")
    (row,) = leporid.rows("topic-permissions", "list", "--of", user, "-p", "/")
    assert (row["exchange"], row["write"], row["read"]) == ("amq.topic", "^a", "^b")
    leporid("topic-permissions", "delete", user, "amq.topic", "--yes")
    assert leporid.rows("topic-permissions", "list", "--of", user) == []


def test_permissions_that_are_not_set(leporid, user, name):
    nobody, nowhere = name("u"), name("v")
    for noun, words in (("permissions", "permissions"), ("topic-permissions", "topic permissions")):
        none = f"there is no user '{user}' with {words} in '/'\n"
        leporid(noun, "delete", user, "--dry-run", code=3)
        leporid(noun, "delete", user, "--yes", code=3)
        assert leporid.error == f"leporid: {none}"
        assert leporid(noun, "delete", user, "--yes", "--ignore-not-found") == none
        leporid(noun, "delete", nobody, "--yes", "--ignore-not-found", code=3)
        assert leporid.error == f"leporid: there is no user '{nobody}'\n"
        leporid(noun, "delete", user, "-p", nowhere, "--yes", "--ignore-not-found", code=3)
        assert leporid.error == f"leporid: there is no virtual host '{nowhere}'\n"
    leporid("topic-permissions", "set", user, "amq.topic", "", "")
    for more in ("--dry-run", "--yes"):
        leporid("topic-permissions", "delete", user, "amq.direct", more, code=3)
        said = f"user '{user}' with topic permissions on exchange 'amq.direct' in '/'"
        assert leporid.error == f"leporid: there is no {said}\n"


def test_permissions_of_nobody_and_nowhere(leporid, user, name):
    nobody, nowhere = name("u"), name("v")
    for given, said in (
        (["set", nobody, "", "", ""], f"no user '{nobody}' or no virtual host '/'"),
        (["set", user, "", "", "", "-p", nowhere], f"or no virtual host '{nowhere}'"),
        (
            ["delete", user, "-p", nowhere, "-y"],
            f"no user '{user}' with permissions in '{nowhere}'",
        ),
    ):
        leporid("permissions", *given, code=3)
        assert said in leporid.error


def test_who_may_not_is_told(leporid, user, monkeypatch):
    monkeypatch.setenv("SECRET", "first")
    as_user = ["--user", user, "--password-env", "SECRET"]
    leporid("users", "list", *as_user, code=4)
    assert f"does not let user '{user}' do that" in leporid.error
    assert "(it takes the tag administrator)" in leporid.error
    leporid("queues", "list", "--user", user, code=4)
    assert "(no password was given: --password-file, LEPORID_PASSWORD)" in leporid.error
    monkeypatch.setenv("SECRET", "wrong")
    leporid("queues", "list", *as_user, code=4)


def test_a_password_is_tried_out(leporid, user, tmp_path):
    file = tmp_path / "password"
    file.write_text("first\n")
    found = leporid.json("users", "authenticate", user, "--checked-password-file", str(file))
    assert found == {"name": user, "authenticated": True, "tags": ["management"]}
    found = leporid.json("users", "authenticate", user, "--checked-password", "wrong", code=1)
    assert found == {"name": user, "authenticated": False, "tags": []}
    leporid("users", "set", user, "--tags", "")
    said = leporid("users", "authenticate", user, "--checked-password", "first")
    assert said == f"user '{user}' logs in with this password; tags: none\n"
    leporid("users", "authenticate", "nobody", "--checked-password", "first", code=1)
    leporid("users", "authenticate", user, code=2)
    assert "--checked-password-file" in leporid.error


def test_who_asks_is_told_with_its_tags(leporid, shared_broker):
    found = leporid.json("whoami")
    assert (found["name"], found["tags"]) == ("guest", ["administrator"])
    assert str(shared_broker.http_port) in found["broker"]
    assert leporid("whoami", "-q") == "guest\n"


def test_who_asks_without_a_tag_is_told_so_and_nobody_is_refused(leporid, name, monkeypatch):
    user = name("u")
    leporid("users", "add", user, "--new-password", "x")
    monkeypatch.setenv("SECRET", "x")
    as_user = ("--user", user, "--password-env", "SECRET")
    assert leporid.json("whoami", *as_user)["tags"] == []
    leporid("users", "delete", user, "--yes")
    leporid("whoami", *as_user, code=4)
    assert f"does not let '{user}' in" in leporid.error
