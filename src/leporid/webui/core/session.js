/* Who is logged in, and what its tags allow.

   Must not know pages. Invariants: the password is sent once and never kept; what a control says of
   rights is for the reader only, the broker decides. */

import { get, onUnauthorized, post, remove } from "./api.js";
import { useEffect, useState } from "./html.js";

// RabbitMQ's: which tags contain which others.
const CONTAINS = {
  management: ["management", "policymaker", "monitoring", "administrator"],
  policymaker: ["policymaker", "administrator"],
  monitoring: ["monitoring", "administrator"],
  administrator: ["administrator"],
};

// undefined: not known yet; null: nobody.
let user;
let ended = false;
const listeners = new Set();

function set(found) {
  user = found;
  for (const listener of [...listeners]) {
    listener({ user });
  }
}

onUnauthorized(() => {
  if (user) {
    ended = true;
  }
  set(null);
});

/** Ask the broker who is logged in. */
export async function resume() {
  try {
    // 204 without a session: a refusal would stand in the browser's console.
    set(await get(["session"], { optional: "true" }));
  } catch (error) {
    set(error.status === 401 ? null : { failed: error });
  }
}

/** Log in; throws ApiError. */
export async function login(username, password) {
  const found = await post(["session"], { username, password });
  ended = false;
  set(found);
}

/** Log out, here and in the broker. */
export async function logout() {
  try {
    await remove(["session"]);
  } catch {
    // The session is over, or the broker is away: either way nobody is logged in here.
  }
  set(null);
}

/** Whether somebody was logged in whose session has ended. */
export function hasEnded() {
  return ended;
}

/** Return {user}: undefined until it is known, null if nobody is; for the shell. */
export function useSession() {
  const [found, setFound] = useState({ user });
  useEffect(() => {
    listeners.add(setFound);
    setFound({ user });
    return () => listeners.delete(setFound);
  }, []);
  return found;
}

/** Return {name, tags, expires_at_ms}: who is logged in; null if nobody is. */
export function useUser() {
  return useSession().user ?? null;
}

/** Whether a user has a tag, or one that contains it. */
export function may(who, tag) {
  const tags = tagsOf(who);
  return (CONTAINS[tag] ?? [tag]).some((each) => tags.includes(each));
}

/** Return "" if a user has a tag, else a sentence for the title of what is disabled. */
export function reasonNot(who, tag) {
  return may(who, tag) ? "" : `This needs the tag "${tag}", which your user does not have.`;
}

function tagsOf(who) {
  const tags = who?.tags ?? [];
  return Array.isArray(tags) ? tags : String(tags).split(",");
}
