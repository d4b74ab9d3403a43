/* Lines of the command line that do what a form does; docs/command-line.md has the commands.

   Must not know forms. Invariant: what others named is quoted, so that a shell takes it as text. */

const DEFAULT_EXCHANGE = "amq.default";

/** Quote a text for a shell of POSIX. */
export function quoted(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A value as `--argument NAME=VALUE` takes it: JSON means that, any other text itself. */
function plain(value) {
  if (typeof value !== "string") {
    return JSON.stringify(value);
  }
  try {
    JSON.parse(value);
  } catch {
    return value;
  }
  return JSON.stringify(value);
}

function options(name, values) {
  return Object.entries(values ?? {}).map(
    ([key, value]) => `--${name} ${quoted(`${key}=${plain(value)}`)}`,
  );
}

function line(...parts) {
  return ["leporid", ...parts.flat()].filter(Boolean).join(" ");
}

/** `leporid queues add …`, of what is sent to declare a queue. */
export function addQueue(vhost, name, body) {
  const { "x-queue-type": type, ...rest } = body.arguments;
  return line(
    "queues add",
    quoted(name),
    type && `--type ${quoted(type)}`,
    !body.durable && "--transient",
    body.auto_delete && "--auto-delete",
    options("argument", rest),
    `--vhost ${quoted(vhost)}`,
  );
}

/** `leporid exchanges add …`, of what is sent to declare an exchange. */
export function addExchange(vhost, name, body) {
  return line(
    "exchanges add",
    quoted(name),
    `--type ${quoted(body.type)}`,
    !body.durable && "--transient",
    body.auto_delete && "--auto-delete",
    body.internal && "--internal",
    options("argument", body.arguments),
    `--vhost ${quoted(vhost)}`,
  );
}

/** `leporid bindings add …`; kind: "q" or "e". */
export function addBinding(vhost, source, kind, destination, body) {
  const { "x-filter-sql": sql, ...rest } = body.arguments;
  return line(
    "bindings add",
    quoted(source),
    quoted(destination),
    kind === "e" && "--to-exchange",
    body.routing_key && `--key ${quoted(body.routing_key)}`,
    sql && `--filter ${quoted(sql)}`,
    options("argument", rest),
    `--vhost ${quoted(vhost)}`,
  );
}

/** `leporid publish …`; null for a body that is no text, which a line cannot have. */
export function publish(vhost, exchange, body) {
  if (body.payload_encoding !== "string") {
    return null;
  }
  const { headers, delivery_mode: mode, ...properties } = body.properties;
  return line(
    "publish",
    quoted(exchange === DEFAULT_EXCHANGE ? "" : exchange),
    quoted(body.routing_key),
    `--message ${quoted(body.payload)}`,
    mode !== 2 && "--transient",
    options("header", headers),
    options("property", properties),
    `--vhost ${quoted(vhost)}`,
  );
}
