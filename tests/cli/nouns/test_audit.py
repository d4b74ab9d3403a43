"""`leporid audit` against a broker."""


def test_acts_are_listed_by_user_vhost_outcome_and_time(leporid, name):
    made, refused = name(), name()
    leporid("vhosts", "add", made)
    leporid("permissions", "set", "nobody", "", "", "", "-p", refused, code=3)
    try:
        rows = leporid.rows("audit", "list", "--name", made)
        assert [(row["user"], row["method"], row["outcome"]) for row in rows][-1] == (
            "guest",
            "PUT",
            "done",
        )
        assert rows[0]["at"].startswith("20")
        assert leporid.rows("audit", "list", "-p", made) == rows
        assert leporid.rows("audit", "list", "-p", made, "--of", "nobody") == []
        assert leporid.rows("audit", "list", "-p", made, "--until", "2020-01-01") == []
        assert leporid.rows("audit", "list", "-p", made, "--since", "2020-01-01T00:00:00Z") == rows
        (newest,) = leporid.json("audit", "list", "--outcome", "refused", "--last", "1")
        assert (newest["vhost"], newest["status"]) == (refused, 400)
        leporid("audit", "list", "--since", "yesterday", code=2)
        assert "invalid time 'yesterday'" in leporid.error
        leporid("audit", "list", "--last", "0", code=2)
    finally:
        leporid("vhosts", "delete", made, "--yes")
