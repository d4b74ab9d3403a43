/* Arguments of declarations, from the fields of a form.

   Must not know forms. Invariant: an empty field is no argument. */

/** Thrown where a field cannot become an argument; the message says which one. */
class ArgumentError extends Error {}

/**
 * Return the value of a field.
 *
 * @param {string} title of the field, for the error.
 * @param {"text"|"number"|"boolean"} kind
 * @param {any} given what is in the field.
 */
export function argumentValue(title, kind, given) {
  if (kind === "boolean") {
    return given ? true : undefined;
  }
  const text = String(given ?? "").trim();
  if (text === "") {
    return undefined;
  }
  if (kind === "number") {
    if (!/^-?\d+$/.test(text)) {
      throw new ArgumentError(`${title}: "${text}" is not a whole number.`);
    }
    return Number(text);
  }
  return text;
}

/** Return the object in a field of JSON; empty is {}. */
export function objectIn(title, text) {
  if (!text.trim()) {
    return {};
  }
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new ArgumentError(`${title}: this is not JSON: ${error.message}`);
  }
  if (found === null || typeof found !== "object" || Array.isArray(found)) {
    throw new ArgumentError(`${title}: a JSON object is needed, such as {"x-max-length": 1000}.`);
  }
  return found;
}
