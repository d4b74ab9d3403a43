/* A page that is about one virtual host: the chosen one; without a choice "/", or else the first
   that the user sees. Must not know what the page shows. */

import { html } from "../core/html.js";
import { useData } from "../core/data.js";
import { useVhost } from "../core/vhost.js";
import { Page } from "./page.js";

/**
 * @param {{title: string, page: Function, query: object}} props `page`: a component that gets
 *   `vhost` and `query`.
 */
export function InVhost({ title, page: Inside, query }) {
  const chosen = useVhost();
  const { data, error } = useData(chosen === null ? ["vhosts"] : null, { columns: "name" });
  if (chosen === null && !data && !error) {
    return html`<${Page} title=${title}><p class="soft">Loading…</p><//>`;
  }
  const names = (data ?? []).map((one) => one.name);
  const vhost = chosen ?? (names.length && !names.includes("/") ? names[0] : "/");
  return html`<${Inside} key=${vhost} vhost=${vhost} query=${query} />`;
}
