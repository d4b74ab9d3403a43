/* Programs that read a stream from where the reader of the page stands: pandas, Polars, DuckDB,
   PySpark, curl and the command line. Must not know the page. Invariant: each runs as it is copied;
   names are quoted by the rules of the language that they stand in, and no password is in them. */

const LOGIN = `import os
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithPriorAuth, build_opener
`;
const OPENER = `passwords = HTTPPasswordMgrWithPriorAuth()
user, password = (os.environ.get(f"LEPORID_{name}", "guest") for name in ("USER", "PASSWORD"))
passwords.add_password(None, url, user, password, is_authenticated=True)
opener = build_opener(HTTPBasicAuthHandler(passwords))
`;

/** A text as Python writes it. */
function pythonText(text) {
  return JSON.stringify(text)
    .replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/(\\ud[89ab][0-9a-f]{2})(\\ud[c-f][0-9a-f]{2})/g, (pair) => {
      const point = JSON.parse(`"${pair}"`).codePointAt(0);
      return `\\U${point.toString(16).padStart(8, "0")}`;
    });
}

/** A text as one word of a POSIX shell. */
function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * @param {{origin: string, vhost: string, stream: string, partitions: number, partition: number,
 *   from: number|null, filter: string, tags: string, dialect: string}} of what is read: a
 *   partition, or all of them if `partition` is null; from an offset, or the first one.
 * @returns {{id: string, title: string, language: string, needs: string, text: string}[]}
 */
export function snippetsOf(of) {
  return [
    { id: "pandas", title: "pandas", needs: "pip install pandas pyarrow", text: pandas(of) },
    { id: "polars", title: "Polars", needs: "pip install polars", text: polars(of) },
    { id: "duckdb", title: "DuckDB", needs: "pip install duckdb pyarrow", text: duckdb(of) },
    { id: "pyspark", title: "PySpark", needs: "pip install 'leporid[spark]'", text: pyspark(of) },
    { id: "curl", title: "curl", needs: "", text: curl(of) },
    { id: "cli", title: "leporid", needs: "", text: cli(of) },
  ];
}

/** The query of one request for records. */
function queryOf(of) {
  const query = [];
  if (of.from !== null) query.push(["from", String(of.from)]);
  if (of.tags) query.push(["tags", of.tags]);
  if (of.filter) query.push(["filter", of.filter]);
  if (of.filter && of.dialect && of.dialect !== "jms") query.push(["dialect", of.dialect]);
  return query;
}

const encoded = (pairs) => pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);

const pathOf = ({ origin, vhost, stream }) =>
  `${origin}/api/streams/${encodeURIComponent(vhost)}/${encodeURIComponent(stream)}/records`;

function urlOf(of, extra = []) {
  const query = [...encoded(queryOf(of)), ...extra];
  return query.length ? `${pathOf(of)}?${query.join("&")}` : pathOf(of);
}

const isMany = (of) => of.partition === null && of.partitions > 1;

function url(of) {
  const one = of.partition ? [`partition=${of.partition}`] : [];
  return `url = ${pythonText(urlOf(of, isMany(of) ? [] : one))}\n`;
}

/** The name of a variable for the URL of each partition, and the loop that has it. */
function each(of) {
  const more = queryOf(of).length ? "&" : "?";
  return `(f"{url}${more}partition={number}" for number in range(${of.partitions}))`;
}

function pandas(of) {
  const head = `${LOGIN}\nimport pandas as pd\nimport pyarrow as pa\n\n${url(of)}${OPENER}`;
  const read = `def read(url):
    with opener.open(url) as answer:
        return pa.ipc.open_stream(answer).read_pandas()


`;
  const all = isMany(of)
    ? `messages = pd.concat(map(read, ${each(of)}), ignore_index=True)`
    : "messages = read(url)";
  return `${isMany(of) ? head : head.replace("import pandas as pd\n", "")}

${read}${all}
print(messages[["partition", "offset", "timestamp", "routing_key", "body"]])
`;
}

function polars(of) {
  const read = `def read(url):
    with opener.open(url) as answer:
        return pl.read_ipc_stream(answer.read())


`;
  const all = isMany(of) ? `messages = pl.concat(map(read, ${each(of)}))` : "messages = read(url)";
  return `${LOGIN}\nimport polars as pl\n\n${url(of)}${OPENER}

${read}${all}
print(messages.select("partition", "offset", "timestamp", "routing_key", "body"))
`;
}

function duckdb(of) {
  const query = `"""
    select routing_key, count(*) as messages, sum(octet_length(body)) as bytes,
           min("timestamp") as first, max("timestamp") as last
    from messages group by routing_key order by messages desc
    """`;
  const head = `${LOGIN}\nimport duckdb\nimport pyarrow as pa\n\n${url(of)}${OPENER}`;
  if (isMany(of)) {
    return `${head}

def read(url):
    with opener.open(url) as answer:
        return pa.ipc.open_stream(answer).read_all()


messages = pa.concat_tables(map(read, ${each(of)}))
print(duckdb.sql(${query}))
`;
  }
  return `${head}
with opener.open(url) as answer:
    messages = pa.ipc.open_stream(answer)
    print(duckdb.sql(${query}))
`;
}

function pyspark(of) {
  const options = [["url", of.origin], ["stream", of.stream]];
  if (of.vhost !== "/") options.push(["vhost", of.vhost]);
  if (of.from !== null) {
    const offsets = {};
    for (let at = 0; at < of.partitions; at += 1) {
      if (of.partition === null || of.partition === at) offsets[at] = of.from;
      else offsets[at] = -1;
    }
    options.push(["startingOffsets", JSON.stringify({ [of.stream]: offsets })]);
  }
  if (of.tags) options.push(["filterTags", of.tags]);
  if (of.filter) options.push(["filter", of.filter]);
  if (of.filter && of.dialect && of.dialect !== "jms") options.push(["filterDialect", of.dialect]);
  const lines = options.map(([name, value]) => `    .option("${name}", ${pythonText(value)})`);
  const one = of.partition !== null && of.partitions > 1;
  if (one) lines.push("    .load()", `    .where("partition = ${of.partition}")`);
  else lines.push("    .load()");
  return `from leporid.spark.session import session

spark = session()  # user and password: LEPORID_USER and LEPORID_PASSWORD, else guest
messages = (
    spark.read.format("leporid")
${lines.join("\n")}
)
messages.selectExpr("partition", "\`offset\`", "timestamp", "routing_key", "body").show()
`;
}

function curl(of) {
  const login = '-u "${LEPORID_USER:-guest}:${LEPORID_PASSWORD:-guest}"';
  const partition = of.partition ? [["partition", String(of.partition)]] : [];
  const data = [...queryOf(of), ...partition]
    .map(([name, value]) => `--data-urlencode ${shellWord(`${name}=${value}`)}`);
  const words = ["curl", "--fail", login, "-G", "-o"];
  if (!isMany(of)) {
    return `${[...words, "messages.arrows", ...data].join(" ")} \\\n  ${shellWord(pathOf(of))}\n`;
  }
  const numbers = Array.from({ length: of.partitions }, (_, at) => at).join(" ");
  const own = '--data-urlencode "partition=$number"';
  const line = [...words, '"messages-$number.arrows"', ...data, own].join(" ");
  return `for number in ${numbers}; do\n  ${line} \\\n    ${shellWord(pathOf(of))}\ndone\n`;
}

function cli(of) {
  const stream = encodeURIComponent(of.stream);
  const words = ["leporid", "cat", of.vhost === "/"
    ? `stream://${stream}` : `stream://${encodeURIComponent(of.vhost)}/${stream}`];
  if (of.partition !== null && of.partitions > 1) words.push("--partition", String(of.partition));
  if (of.from !== null) words.push("--from", String(of.from));
  for (const [name, value] of [["tags", of.tags], ["filter", of.filter]]) {
    // A value that begins with "-" would be taken for an option.
    if (value.startsWith("-")) words.push(`--${name}=${value}`);
    else if (value) words.push(`--${name}`, value);
  }
  return `${words.map(shellWord).join(" ")}\n`;
}
