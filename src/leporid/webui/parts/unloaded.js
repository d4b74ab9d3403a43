/* What stands in place of a part of the pages whose file did not come. */

import { useData } from "../core/data.js";
import { html } from "../core/html.js";
import { Button } from "./button.js";
import { Notice } from "./notice.js";

const EVERY_MS = 3000;

/** Says why, and reloads: after an upgrade the same page has other files. */
export function Unloaded() {
  // Nothing else may be shown that would find out that the session has ended meanwhile.
  useData(["whoami"], {}, { every: EVERY_MS });
  return html`<${Notice} kind="warn">The broker does not answer, or it was upgraded after this tab
    was opened.
    ${" "}<${Button} onClick=${() => location.reload()}>Reload<//><//>`;
}
