/* The banner of an alarm: it stands above every page while the broker reads nothing from
   publishers.

   Must not know pages. Invariant: it says what is blocked and what ends it. */

import { html } from "../core/html.js";
import { useLive } from "../core/live.js";
import { href } from "../core/route.js";
import { Notice } from "./notice.js";

const LONGEST = { sort: "messages", reverse: "1" };

function remedy(alarms) {
  const disk = alarms.includes("disk");
  const queues = "let consumers take messages, or purge queues that nobody needs";
  return disk
    ? `To free disk, ${queues}, or shorten what streams keep.`
    : `To free memory, ${queues}.`;
}

/** @param {{isOverview: boolean}} props isOverview: the page is what the link would lead to. */
export function Alarms({ isOverview }) {
  const alarms = useLive()?.overview?.alarms ?? [];
  if (!alarms.length) {
    return null;
  }
  const subject = alarms.length > 1
    ? `The alarms of ${alarms.join(" and ")} are on`
    : `The ${alarms[0]} alarm is on`;
  return html`<div class="banner"><${Notice} kind="bad">
    <strong>${subject}: publishers are blocked.</strong> The broker reads nothing from connections
    that publish, and refuses what is published over HTTP, until the alarm ends. Consumers go on.
    ${" "}${remedy(alarms)} ${" "}<a href=${href(["queues"], LONGEST)}>The longest queues</a>
    ${!isOverview && html` · <a href=${href([])}>Overview</a>`}
  <//></div>`;
}
