/* The state of a connection, in colour and in words. */

import { html } from "../core/html.js";

const KINDS = { running: "good", blocked: "bad", closing: "warn" };
const TITLES = {
  blocked: "The broker does not read it: an alarm is on.",
  closing: "It is being closed.",
};

/** @param {object} props state: as the API says it. */
export function ConnectionState({ state }) {
  return html`<span class=${`state ${KINDS[state] ?? ""}`} title=${TITLES[state]}>${state}</span>`;
}
