"""A pandas table as messages, and back: `python publish_pandas.py http://localhost:15672 orders`.

Needs `pip install pandas pyarrow`. What the broker answers is on its disk. Run it twice: it names
itself and numbers its rows, so the second time everything is a duplicate.
"""

import json
import sys
from urllib.parse import quote
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithPriorAuth, Request, build_opener

import pandas as pd
import pyarrow as pa

url, stream = sys.argv[1:3]
passwords = HTTPPasswordMgrWithPriorAuth()
passwords.add_password(None, url, "guest", "guest", is_authenticated=True)
opener = build_opener(HTTPBasicAuthHandler(passwords))
name = quote(stream, safe="")

made = Request(f"{url}/api/streams/%2F/{name}", method="PUT")
opener.open(made).close()

orders = pd.DataFrame({"order": range(1000), "euro": 9.5})
table = pa.table({"body": orders.to_json(orient="records", lines=True).splitlines()})
table = table.append_column("routing_key", pa.array([stream] * len(orders)))
sink = pa.BufferOutputStream()
with pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
body = sink.getvalue().to_pybytes()
publish = f"{url}/api/publish/%2F/amq.default?producer=publish_pandas&sequence=0"
with opener.open(Request(publish, body, method="POST")) as answer:
    print(json.load(answer))

with opener.open(f"{url}/api/streams/%2F/{name}/records?columns=offset,timestamp,body") as answer:
    print(pa.ipc.open_stream(answer).read_pandas())
