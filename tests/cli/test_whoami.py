"""`leporid whoami`."""


def test_the_user_and_its_tags_are_told(leporid, shared_broker):
    found = leporid.json("whoami")
    assert (found["name"], found["tags"]) == ("guest", ["administrator"])
    assert str(shared_broker.http_port) in found["broker"]
    assert leporid("whoami", "-q") == "guest\n"


def test_who_has_no_tag_is_told_so_and_who_is_nobody_is_refused(leporid, name, monkeypatch):
    user = name("u")
    leporid("users", "add", user, "--new-password", "x")
    monkeypatch.setenv("SECRET", "x")
    as_user = ("--user", user, "--password-env", "SECRET")
    assert leporid.json("whoami", *as_user)["tags"] == []
    leporid("users", "delete", user, "--yes")
    leporid("whoami", *as_user, code=4)
    assert f"does not let '{user}' in" in leporid.error
