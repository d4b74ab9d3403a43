/* Who is logged in, and what its tags and permissions allow.

   Must not know pages. Invariants: the password is sent once and never kept; what a control says of
   rights is for the reader only, the broker decides. */

import { get, onUnauthorized, post, remove } from "./api.js";
import { useEffect, useState } from "./html.js";
import { reasonNotTo } from "./rights.js";

// RabbitMQ's: which tags contain which others.
const CONTAINS = {
  management: ["management", "policymaker", "monitoring", "administrator"],
  policymaker: ["policymaker", "administrator"],
  monitoring: ["monitoring", "administrator"],
  administrator: ["administrator"],
};

// Permissions may be changed while somebody is logged in.
const EVERY_MS = 60_000;

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

// Tabs share the cookie: who logs in or out in one of them does so in all.
const tabs = new BroadcastChannel("leporid.session");
tabs.addEventListener("message", () => resume());

function rightsText({ name, tags, permissions }) {
  return JSON.stringify([name, tags, permissions]);
}

/** Ask again from time to time while a tab is seen, for rights that have changed meanwhile. */
export function useFreshRights(visible) {
  useEffect(() => {
    if (!visible) {
      return undefined;
    }
    const timer = setInterval(async () => {
      try {
        const found = await get(["session"]);
        if (user && rightsText(found) !== rightsText(user)) {
          set(found);
        }
      } catch {
        // Whoever asks next is told.
      }
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [visible]);
}

/** Log in; throws ApiError. */
export async function login(username, password) {
  const found = await post(["session"], { username, password });
  ended = false;
  set(found);
  tabs.postMessage(null);
}

/** Log out, here and in the broker. */
export async function logout() {
  try {
    await remove(["session"]);
  } catch {
    // The session is over, or the broker is away: either way nobody is logged in here.
  }
  set(null);
  tabs.postMessage(null);
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

/** Return why the user who is logged in may not do something to an object; "" if it may. */
export function useReasonNotTo(right, vhost, name) {
  return reasonNotTo(useUser(), right, vhost, name);
}

function tagsOf(who) {
  const tags = who?.tags ?? [];
  return Array.isArray(tags) ? tags : String(tags).split(",");
}
