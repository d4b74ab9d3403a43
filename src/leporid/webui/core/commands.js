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

function inVhost(vhost) {
  return `--vhost ${quoted(vhost)}`;
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
    inVhost(vhost),
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
    inVhost(vhost),
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
    inVhost(vhost),
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
    inVhost(vhost),
  );
}

/**
 * `leporid NOUN list …`, of what a list asks the broker.
 *
 * @param {string} noun with arguments of its own behind a space.
 * @param {object} question parameters of the route.
 * @param {string|null} vhost whose rows they are; null: all.
 */
export function list(noun, { name, use_regex: regex, sort, sort_reverse: reverse, where }, vhost) {
  const end = noun.indexOf(" ");
  return line(
    end < 0 ? noun : noun.slice(0, end),
    "list",
    end < 0 ? "" : noun.slice(end + 1),
    name && `--name ${quoted(name)}`,
    regex && "--regex",
    sort && `--sort ${quoted(sort)}`,
    sort && reverse === "true" && "--reverse",
    (where ?? []).map((each) => `--where ${quoted(each)}`),
    vhost !== null && inVhost(vhost),
  );
}

/** `leporid cat …`: the messages of a queue or a stream, which stay where they are. */
export function cat(kind, vhost, name, { filter, tags, key, count, take } = {}) {
  const place = [vhost, name].map(encodeURIComponent).join("/");
  return line(
    "cat",
    quoted(`${kind}://${place}`),
    filter && `--filter ${quoted(filter)}`,
    tags && `--tags ${quoted(tags)}`,
    key && `--key ${quoted(key)}`,
    count && `--count ${quoted(count)}`,
    take && "--take --yes",
  );
}

/**
 * `leporid queues move …`; null if nothing says where to.
 *
 * @param {{queue?: string, exchange?: string, routing_key?: string, origin?: string}} to
 */
export function move(vhost, queue, to, { limit, filter } = {}) {
  const { queue: other, exchange, routing_key: key, origin } = to;
  if (!other && !exchange && !origin) {
    return null;
  }
  return line(
    "queues move",
    quoted(queue),
    other && quoted(other),
    origin && `--origin ${origin}`,
    exchange && `--exchange ${quoted(exchange)}`,
    key && `--key ${quoted(key)}`,
    limit && `--limit ${quoted(limit)}`,
    filter && `--filter ${quoted(filter)}`,
    inVhost(vhost),
  );
}

/** `leporid policies set …`, or of operator policies, of what is sent to set one. */
export function setPolicy(kind, vhost, name, body) {
  return line(
    kind,
    "set",
    [name, body.pattern, JSON.stringify(body.definition)].map(quoted),
    `--priority ${quoted(String(body.priority))}`,
    `--apply-to ${quoted(body["apply-to"])}`,
    inVhost(vhost),
  );
}
