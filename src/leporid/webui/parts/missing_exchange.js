/* A warning on the page of a queue or exchange: what it sends on goes to an exchange that is not
   there. Must not know how settings are merged: the topology says what is missing. */

import { useData } from "../core/data.js";
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { Notice } from "./notice.js";

const EVERY_MS = 30_000;
const WHAT = {
  queue: ["dead letters", "are dropped"],
  exchange: ["unroutable messages", "are dropped"],
};

/** @param {{vhost: string, kind: "queue"|"exchange", name: string}} props */
export function MissingExchange({ vhost, kind, name }) {
  const query = { around: `${kind}:${name}`, hops: 0 };
  const { data } = useData(["topology", vhost], query, { every: EVERY_MS });
  const [what, happens] = WHAT[kind];
  return (data?.missing ?? []).map(
    (each) => html`<${Notice} key=${each} kind="warn">
      There is no exchange <strong class="name">${each}</strong>: ${what} for it ${happens}.
      ${" "}Declare it on the <a href=${href(["exchanges"], { vhost })}>page of exchanges</a>, or
      change the setting that names it.<//>`,
  );
}
