/* The frame of a page: its title, what can be done, and how to do the same elsewhere.

   Must not know what the page is about. */

import { BROKER, queryText } from "../core/api.js";
import { quoted } from "../core/commands.js";
import { html, useEffect, useMemo } from "../core/html.js";
import { Copy } from "./copy.js";

// Where the command line looks for the broker by itself.
const DEFAULT = "http://localhost:15672";

/** The curl line of a call; path as for api.get; `file` is sent in place of a body. */
function curlOf({ method = "GET", path, query, body, file }) {
  const text = queryText(query);
  const place = `/api/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
  const parts = ["curl", "-u", "USER"];
  if (method !== "GET") {
    parts.push("-X", method);
  }
  parts.push(quoted(`${BROKER}${place}`));
  if (body !== undefined && body !== null) {
    parts.push("-H", quoted("Content-Type: application/json"), "-d", quoted(JSON.stringify(body)));
  }
  if (file) {
    parts.push("-H", quoted("Content-Type: application/json"), "--data-binary", quoted(`@${file}`));
  }
  return parts.join(" ");
}

/** One line that can be copied. */
function Line({ name, text }) {
  return html`<div class="same-line">
    <span class="same-name">${name}</span><code>${text}</code><${Copy} text=${text} />
  </div>`;
}

/** What this page does, as a command line and as an HTTP call. */
export function Same({ cli, http }) {
  const calls = http ? [http].flat() : [];
  const lines = cli ? [cli].flat() : [];
  const elsewhere = lines.length > 0 && BROKER !== DEFAULT;
  return html`<details class="same">
    <summary>Do the same elsewhere</summary>
    ${elsewhere &&
    html`<${Line} name="Broker" text=${`export LEPORID_URL=${BROKER}`} />`}
    ${lines.map((text) => html`<${Line} key=${text} name="Command line" text=${text} />`)}
    ${calls.map((call) => {
      const text = curlOf(call);
      return html`<${Line} key=${text} name="HTTP" text=${text} />`;
    })}
  </details>`;
}

/**
 * @param {object} props
 * @param {string} props.title a text; it becomes the title of the tab as well.
 * @param {any} [props.head] what stands as the heading in place of the title.
 * @param {any} [props.actions] buttons.
 * @param {string|string[]} [props.cli] the equivalent `leporid …` lines.
 * @param {object|object[]} [props.http] {method, path, query?, body?}: the equivalent calls.
 */
export function Page({ title, head, actions, cli, http, children }) {
  useEffect(() => {
    document.title = `${title} · Leporid`;
  }, [title]);
  const same = useMemo(
    () => (cli || http) && html`<${Same} cli=${cli} http=${http} />`,
    [JSON.stringify([cli, http])],
  );
  return html`<div class="page">
    <div class="page-head">
      <h1 tabindex="-1" id="page-title">${head ?? title}</h1>
      ${actions && html`<div class="page-actions">${actions}</div>`}
    </div>
    ${children} ${same}
  </div>`;
}
