/* Lines of the command line that do what a form does; docs/command-line.md has the commands.

   Must not know forms. Invariants: what others named is quoted, so that a shell takes it as text;
   and a name that begins with "-" is no option. */

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

/** An option with its value. */
export function option(name, value) {
  const text = String(value);
  return `--${name}${text.startsWith("-") ? "=" : " "}${quoted(text)}`;
}

function options(name, values) {
  return Object.entries(values ?? {}).map(
    ([key, value]) => option(name, `${key}=${plain(value)}`),
  );
}

/**
 * A line of the command line.
 *
 * @param {string} verb such as "queues show".
 * @param {(string|undefined|null|false)[]} names what stands there without an option, as it is
 *   called; what is not a text is left out.
 * @param {...any} given options, as `option` makes them.
 */
export function command(verb, names, ...given) {
  const called = names.filter((each) => typeof each === "string");
  const words = called.map(quoted);
  // Behind "--" nothing is an option.
  const parts = called.some((each) => each.startsWith("-"))
    ? [given, "--", words] : [words, given];
  return ["leporid", verb, ...parts.flat(3)].filter(Boolean).join(" ");
}

/** The option that names the virtual host. */
export function inVhost(vhost) {
  return option("vhost", vhost);
}

/** `leporid queues add …`, of what is sent to declare a queue. */
export function addQueue(vhost, name, body) {
  const { "x-queue-type": type, ...rest } = body.arguments;
  return command(
    "queues add",
    [name],
    type && option("type", type),
    !body.durable && "--transient",
    body.auto_delete && "--auto-delete",
    options("argument", rest),
    inVhost(vhost),
  );
}

/** `leporid exchanges add …`, of what is sent to declare an exchange. */
export function addExchange(vhost, name, body) {
  return command(
    "exchanges add",
    [name],
    option("type", body.type),
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
  return command(
    "bindings add",
    [source, destination],
    kind === "e" && "--to-exchange",
    body.routing_key && option("key", body.routing_key),
    sql && option("filter", sql),
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
  return command(
    "publish",
    [exchange === DEFAULT_EXCHANGE ? "" : exchange, body.routing_key],
    option("message", body.payload),
    mode !== 2 && "--transient",
    options("header", headers),
    options("property", properties),
    inVhost(vhost),
  );
}

/**
 * `leporid NOUN list …`, of what a list asks the broker.
 *
 * @param {string} noun
 * @param {object} question parameters of the route.
 * @param {string|null} vhost whose rows they are; null: all.
 * @param {{names?: string[], given?: string[]}} [own] of this noun: what is named without an
 *   option, and options.
 */
export function list(noun, question, vhost, { names = [], given = [] } = {}) {
  const { name, use_regex: regex, sort, sort_reverse: reverse, where } = question;
  return command(
    `${noun} list`,
    names,
    given,
    name && option("name", name),
    regex && "--regex",
    sort && option("sort", sort),
    sort && reverse === "true" && "--reverse",
    (where ?? []).map((each) => option("where", each)),
    vhost !== null && inVhost(vhost),
  );
}

/** `leporid cat …`: the messages of a queue or a stream, which stay where they are. */
export function cat(kind, vhost, name, { filter, tags, key, count, take } = {}) {
  const place = [vhost, name].map(encodeURIComponent).join("/");
  return command(
    "cat",
    [`${kind}://${place}`],
    filter && option("filter", filter),
    tags && option("tags", tags),
    key && option("key", key),
    count && option("count", count),
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
  return command(
    "queues move",
    [queue, other || null],
    origin && `--origin ${origin}`,
    exchange && option("exchange", exchange),
    key && option("key", key),
    limit && option("limit", limit),
    filter && option("filter", filter),
    inVhost(vhost),
  );
}

/** `leporid policies set …`, or of operator policies, of what is sent to set one. */
export function setPolicy(kind, vhost, name, body) {
  return command(
    `${kind} set`,
    [name, body.pattern, JSON.stringify(body.definition)],
    option("priority", body.priority),
    option("apply-to", body["apply-to"]),
    inVhost(vhost),
  );
}
