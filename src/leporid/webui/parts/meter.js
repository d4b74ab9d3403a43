/* How much of something is used, as a bar and in words.

   The bar is SVG, whose sizes are attributes: a stylesheet cannot know them. */

import { html } from "../core/html.js";

const WIDTH = 100;
const HEIGHT = 4;

/** @param {object} props label, text: in words; share: 0 to 1; mark: where it becomes bad. */
export function Meter({ label, text, share, level = "good" }) {
  const whole = Math.max(0, Math.min(1, share || 0));
  return html`<div class="meter">
    <div class="meter-head"><span>${label}</span><span class="soft">${text}</span></div>
    <svg class="meter-bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none"
      aria-hidden="true">
      <rect class="ground" width=${WIDTH} height=${HEIGHT} rx="1" />
      <rect class=${level} width=${whole * WIDTH} height=${HEIGHT} rx="1" />
    </svg>
  </div>`;
}
