/* What permissions let a user do: the patterns of configure, write and read.

   Must not ask the broker, which decides anyway. Invariant: a pattern that this browser may read
   differently from the broker allows everything here, so that no control is disabled by mistake. */

// RE2 matches these in linear time and a browser does not: a group that is repeated.
const REPEATED_GROUP = /\)[*+{]/;

/** Return whether a pattern lets a name in; true if that is not plain. */
export function lets(pattern, name) {
  if (pattern === ".*" || REPEATED_GROUP.test(pattern)) {
    return true;
  }
  if (pattern === "") {
    return false;
  }
  try {
    // With "u" a browser refuses what RE2 alone knows, and other names than ASCII are letters.
    return new RegExp(pattern, "u").test(name);
  } catch {
    return true;
  }
}

/**
 * Return "" if a user may do something to an object, else a sentence for what is disabled.
 *
 * @param {{permissions?: object[]|null}|null} who as /api/session shows it.
 * @param {"configure"|"write"|"read"} right
 * @param {string} vhost
 * @param {string} name of a queue or an exchange; "amq.default" or "" is the default exchange.
 */
export function reasonNotTo(who, right, vhost, name) {
  if (!Array.isArray(who?.permissions)) {
    return "";
  }
  const granted = who.permissions.find((each) => each.vhost === vhost);
  if (granted === undefined) {
    return `Your user may not enter the virtual host "${vhost}".`;
  }
  const object = name === "" ? "amq.default" : name;
  return lets(granted[right], object)
    ? ""
    : `This needs the permission to ${right} "${object}" in "${vhost}", which your user does not ` +
      "have.";
}
