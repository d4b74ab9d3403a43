/* A question before something is destroyed; the reader types the name of what goes.

   Must not know what is done. Invariant: a refusal is shown in the dialog, which stays open. */

import { html, useEffect, useState } from "../core/html.js";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { Field } from "./form.js";
import { Notice } from "./notice.js";

/**
 * @param {object} props
 * @param {boolean} props.open
 * @param {string} props.title what is asked: "Delete queue orders".
 * @param {any} props.what what will be gone, as a sentence.
 * @param {string} [props.typed] the name that has to be typed.
 * @param {boolean} [props.danger]
 * @param {string} [props.yes] what the button says; the title unless given.
 * @param {function} props.onYes may return a promise; the dialog closes when it is kept.
 * @param {function} props.onClose
 */
export function Confirm({
  open,
  title,
  what,
  typed,
  danger = false,
  yes,
  onYes,
  onClose,
  children,
}) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  useEffect(() => {
    setText("");
    setError(null);
  }, [open, typed]);
  const ready = typed === undefined || text === typed;
  const act = async (event) => {
    event?.preventDefault();
    if (!ready) {
      return;
    }
    setError(null);
    try {
      await onYes();
      onClose();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<${Dialog} open=${open} title=${title} onClose=${onClose}>
    <form class="form" onSubmit=${act}>
      <div class="confirm-what">${what}</div>
      ${children}
      ${typed !== undefined &&
      html`<${Field}
        label=${html`Type <strong class="name">${typed}</strong> to confirm`}
        name="typed"
        value=${text}
        onInput=${setText}
        autocomplete="off"
        spellcheck=${false}
      />`}
      ${error && html`<${Notice} kind="bad">${error.message}<//>`}
      <div class="form-end">
        <${Button} onClick=${onClose}>Cancel<//>
        <${Button} kind=${danger ? "danger" : "main"} disabled=${!ready} onClick=${act}
          >${yes ?? title}<//>
      </div>
    </form>
  <//>`;
}
