"""SQL over a stream, by DuckDB: `python read_duckdb.py http://localhost:15672 orders`.

Needs `pip install duckdb pyarrow`. Batches are worked on as they arrive, so the stream may be
larger than the memory.
"""

import sys
from urllib.parse import quote
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithPriorAuth, build_opener

import duckdb
import pyarrow as pa

url, stream = sys.argv[1:3]
passwords = HTTPPasswordMgrWithPriorAuth()
passwords.add_password(None, url, "guest", "guest", is_authenticated=True)
opener = build_opener(HTTPBasicAuthHandler(passwords))

records = f"{url}/api/streams/%2F/{quote(stream, safe='')}/records?columns=offset,routing_key,body"
with opener.open(records) as answer:
    messages = pa.ipc.open_stream(answer)
    print(
        duckdb.sql(
            """
            select routing_key, count(*) as messages, sum(octet_length(body)) as bytes,
                   max("offset") as last
            from messages group by routing_key order by routing_key
            """
        )
    )
