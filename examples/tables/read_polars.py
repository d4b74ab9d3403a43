"""A stream as a Polars table: `python read_polars.py http://localhost:15672 orders`.

Needs `pip install polars`.
"""

import sys
from urllib.parse import quote
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithPriorAuth, build_opener

import polars as pl

url, stream = sys.argv[1:3]
passwords = HTTPPasswordMgrWithPriorAuth()
passwords.add_password(None, url, "guest", "guest", is_authenticated=True)
opener = build_opener(HTTPBasicAuthHandler(passwords))

records = f"{url}/api/streams/%2F/{quote(stream, safe='')}/records?columns=offset,routing_key,body"
with opener.open(records) as answer:
    messages = pl.read_ipc_stream(answer.read())

print(
    messages.group_by("routing_key")
    .agg(
        pl.len().alias("messages"),
        pl.col("body").bin.size().sum().alias("bytes"),
        pl.col("offset").max().alias("last"),
    )
    .sort("routing_key")
)
