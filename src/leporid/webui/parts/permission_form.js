/* The three patterns that say what a user may do in a virtual host, as a form and as a sign.

   Must not know which page it is on. Invariant: a pattern is sent as it was typed; the broker says
   whether it is one. */

import { put, remove } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";

export const RIGHTS = ["configure", "write", "read"];

const HINTS = {
  configure: "Declare and delete queues and exchanges whose names match.",
  write: "Publish to exchanges, and bind queues, whose names match.",
  read: "Consume from queues, and bind from exchanges, whose names match.",
};

const PRESETS = [
  ["Everything", { configure: ".*", write: ".*", read: ".*" }],
  ["Publish and consume", { configure: "^$", write: ".*", read: ".*" }],
  ["Consume only", { configure: "^$", write: "^$", read: ".*" }],
  ["Enter only", { configure: "^$", write: "^$", read: "^$" }],
];

const NOTHING = new Set(["", "^$"]);

/** Return "all", "none" or "some": how much a pattern lets in, as far as that is plain. */
function breadth(pattern) {
  if (pattern === ".*") {
    return "all";
  }
  return NOTHING.has(pattern) ? "none" : "some";
}

/**
 * Permissions in a virtual host in one cell: which of the three rights there are.
 *
 * @param {object} props permission: {configure, write, read}, or undefined without any.
 */
export function PermissionSign({ permission }) {
  if (!permission) {
    return html`<span class="soft">no entry</span>`;
  }
  const kinds = RIGHTS.map((right) => breadth(permission[right]));
  if (kinds.every((kind) => kind === "all")) {
    return html`<span class="grant all">everything</span>`;
  }
  if (kinds.every((kind) => kind === "none")) {
    return html`<span class="grant none">enter only</span>`;
  }
  return html`<span class="grants"
    >${RIGHTS.map(
      (right, at) => kinds[at] !== "none" && html`<span class=${`grant ${kinds[at]}`}
        key=${right}>${right}${kinds[at] === "some" ? " …" : ""}</span> `,
    )}</span>`;
}

/** The sentence that a screen reader says in place of the sign. */
export function permissionText(permission) {
  if (!permission) {
    return "no permissions";
  }
  return RIGHTS.map((right) => `${right} ${permission[right] || "nothing"}`).join(", ");
}

/**
 * A dialog that sets or takes the permissions of one user in one virtual host.
 *
 * @param {object} props
 * @param {{user: string, vhost: string, permission?: object}|null} props.of null: closed.
 * @param {string} [props.why] why it cannot be changed.
 * @param {function(string)} props.onDone called when it is changed, with what was done.
 * @param {function} props.onClose
 */
export function PermissionDialog({ of, why = "", onDone, onClose }) {
  const [given, setGiven] = useState({});
  useEffect(() => {
    setGiven(of?.permission ?? { configure: "", write: "", read: "" });
  }, [of]);
  if (of === null) {
    return null;
  }
  const { user, vhost, permission } = of;
  const path = ["permissions", vhost, user];
  const save = async () => {
    const { configure = "", write = "", read = "" } = given;
    await put(path, { configure, write, read });
    onDone(`Permissions of ${user} in ${vhost} are set.`);
    onClose();
  };
  const take = async () => {
    await remove(path);
    onDone(`${user} may no longer enter ${vhost}.`);
    onClose();
  };
  return html`<${Dialog} open title="Permissions" onClose=${onClose}>
    <p>What user <strong class="name">${user}</strong> may do in virtual host${" "}
      <strong class="name">${vhost}</strong>. Each is a pattern that is looked for in the name.
      <code>.*</code> is everything, empty is nothing.</p>
    <div class="presets" role="group" aria-label="Patterns to begin with">
      ${PRESETS.map(
        ([title, patterns]) => html`<${Button} key=${title} kind="quiet"
          onClick=${() => setGiven(patterns)}>${title}<//>`,
      )}
    </div>
    <${Form} onSubmit=${save} submit="Set permissions" why=${why} onCancel=${onClose}>
      ${RIGHTS.map(
        (right) => html`<${Field} key=${right} name=${right} label=${TITLES[right]}
          hint=${HINTS[right]} value=${given[right] ?? ""} autocomplete="off" spellcheck=${false}
          onInput=${(text) => setGiven((before) => ({ ...before, [right]: text }))} />`,
      )}
      ${permission &&
      html`<p class="form-aside"><${Taking} why=${why} take=${take} user=${user}
        vhost=${vhost} /></p>`}
    <//>
  <//>`;
}

const TITLES = { configure: "Configure", write: "Write", read: "Read" };

function Taking({ why, take, user, vhost }) {
  const [error, setError] = useState(null);
  const act = () => take().catch(setError);
  return html`<${Button} kind="danger" why=${why} onClick=${act}
      label=${`Take all permissions of ${user} in ${vhost}`}>Take all permissions<//>
    ${error && html`<span class="field-error" role="alert">${error.message}</span>`}`;
}
