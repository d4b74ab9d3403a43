/* A row of tabs: arrows move between them, as the pattern of WAI-ARIA says.

   Must not know what a tab shows: its owner draws the panel with `id="panel"`. */

import { html, useEffect, useRef } from "../core/html.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/**
 * @param {object} props
 * @param {{id: string, title: any}[]} props.tabs
 * @param {string} props.current id of the tab that is shown.
 * @param {function(string)} props.onPick
 * @param {string} [props.label] what the tabs are of.
 */
export function Tabs({ tabs, current, onPick, label = "Parts of this page" }) {
  const box = useRef(null);
  useEffect(() => {
    // On a narrow screen there are more of them than fit. The page itself stays where it is.
    const chosen = box.current?.querySelector("[aria-selected=true]");
    if (!chosen) {
      return;
    }
    const row = box.current.getBoundingClientRect();
    const tab = chosen.getBoundingClientRect();
    box.current.scrollLeft += Math.max(0, tab.right - row.right) - Math.max(0, row.left - tab.left);
  }, [current]);
  const move = (event) => {
    const at = tabs.findIndex((each) => each.id === current);
    let to = null;
    if (event.key in STEPS) {
      to = (at + STEPS[event.key] + tabs.length) % tabs.length;
    } else if (event.key === "Home") {
      to = 0;
    } else if (event.key === "End") {
      to = tabs.length - 1;
    }
    if (to !== null) {
      event.preventDefault();
      onPick(tabs[to].id);
      box.current?.querySelectorAll("[role=tab]")[to]?.focus();
    }
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${box} onKeyDown=${move}>
    ${tabs.map(
      ({ id, title }) =>
        html`<button
          type="button"
          role="tab"
          key=${id}
          aria-selected=${id === current ? "true" : "false"}
          tabindex=${id === current ? 0 : -1}
          onClick=${() => onPick(id)}
          >${title}</button
        >`,
    )}
  </div>`;
}
