/* A button that puts a text into the clipboard. */

import { html, useEffect, useRef, useState } from "../core/html.js";

const SHOWN_MS = 1500;

async function write(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Without TLS, browsers have no clipboard but for loopback.
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "only-read";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) {
    throw new Error("refused");
  }
}

/** @param {object} props text to copy; label, what the button says. */
export function Copy({ text, label = "Copy" }) {
  const [said, setSaid] = useState("");
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await write(text);
      setSaid("Copied");
    } catch {
      setSaid("Not allowed");
    }
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSaid(""), SHOWN_MS);
  };
  return html`<button type="button" class="button quiet copy" onClick=${copy}
    ><span aria-live="polite">${said || label}</span></button>`;
}
