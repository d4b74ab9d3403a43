/* Settings of queues and exchanges: which counts, if an argument and a policy say something.

   The rules are those of docs/policies.md, "Settings". Must not ask the broker, nor draw. */

// The smaller of argument and policy; of a stream, and of `expires` of a quorum queue, the policy.
const SMALLER = new Set([
  "max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit", "consumer-timeout",
]);
const POLICY = new Set(["max-age", "stream-max-segment-size-bytes"]);
const NONE = undefined;

/** Return whether the policy counts and not the argument, if both say something. */
function policyCounts(setting, type) {
  if (POLICY.has(setting)) {
    return true;
  }
  if (type === "stream") {
    return setting === "max-length-bytes" || setting === "max-length";
  }
  return type === "quorum" && (setting === "expires" || setting === "overflow");
}

/** Return {value, from} of a setting: from is "argument", "policy" or "". */
function effective(setting, argument, policy, type) {
  if (argument === NONE) {
    return policy === NONE ? { value: NONE, from: "" } : { value: policy, from: "policy" };
  }
  if (policy === NONE) {
    return { value: argument, from: "argument" };
  }
  if (policyCounts(setting, type)) {
    return { value: policy, from: "policy" };
  }
  if (SMALLER.has(setting) && typeof argument === "number" && typeof policy === "number") {
    return policy < argument
      ? { value: policy, from: "policy" }
      : { value: argument, from: "argument" };
  }
  return { value: argument, from: "argument" };
}

/** Return the rows of the table: one for each setting that somebody has set. */
export function settingRows({ type, arguments: given, effective_policy_definition: policy }) {
  const own = plain(given);
  const governed = plain(policy);
  const names = new Set(Object.keys(governed));
  // A map: an argument may be called like what every object has.
  const byName = new Map();
  for (const [name, value] of Object.entries(own)) {
    const setting = name.replace(/^x-/, "");
    names.add(setting);
    byName.set(setting, value);
  }
  return [...names].sort().map((setting) => {
    const argument = byName.get(setting);
    const policyValue = Object.hasOwn(governed, setting) ? governed[setting] : NONE;
    return { setting, argument, policyValue, ...effective(setting, argument, policyValue, type) };
  });
}

function plain(value) {
  return value && !Array.isArray(value) ? value : {};
}

