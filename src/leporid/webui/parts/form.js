/* Forms: labelled fields, and what the broker says of them.

   Must not know what is sent. Invariants: each field has a label; a refusal is read out, and what
   was typed stays. */

import { html, useState } from "../core/html.js";
import { Button } from "./button.js";
import { Notice } from "./notice.js";

let ids = 0;

/**
 * @param {object} props
 * @param {function} props.onSubmit may return a promise; a refusal is shown.
 * @param {string} props.submit what the button says.
 * @param {"main"|"danger"} [props.kind]
 * @param {string} [props.why] why it cannot be sent.
 * @param {function} [props.onCancel] shows a button that gives up.
 */
export function Form({
  onSubmit,
  submit = "Save",
  kind = "main",
  why = "",
  disabled = false,
  onCancel,
  inline = false,
  children,
}) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    if (busy || why || disabled) {
      return;
    }
    setError(null);
    setBusy(true);
    try {
      await onSubmit(event);
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return html`<form class=${inline ? "form inline" : "form"} onSubmit=${send}>
    ${children}
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <div class="form-end">
      ${onCancel && html`<${Button} onClick=${onCancel}>Cancel<//>`}
      <${Button} type="submit" kind=${kind} why=${why} disabled=${busy || disabled}>${submit}<//>
    </div>
  </form>`;
}

/**
 * @param {object} props
 * @param {any} props.label
 * @param {string} props.name
 * @param {any} props.value
 * @param {function(any, Event)} props.onInput gets the value: a boolean of a checkbox, else a text.
 * @param {string} [props.type] of <input>; also "textarea", "select", "checkbox".
 * @param {any} [props.hint] a sentence below.
 * @param {string} [props.error] what is wrong with the value.
 * @param {(string|{value: string, label: string})[]} [props.options] of a select; of a text, what
 *   the browser proposes.
 */
export function Field({
  label,
  name,
  value,
  onInput,
  type = "text",
  hint,
  error,
  required = false,
  options,
  ...rest
}) {
  const [id] = useState(() => `field-${(ids += 1)}`);
  const described = [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(" ");
  const common = {
    ...rest,
    id,
    name,
    required,
    "aria-invalid": error ? "true" : undefined,
    "aria-describedby": described || undefined,
  };
  const below =
    (error || hint) &&
    html`<div class="field-below">
      ${error && html`<p class="field-error" id=${`${id}-error`}>${error}</p>`}
      ${hint && html`<p class="field-hint" id=${`${id}-hint`}>${hint}</p>`}
    </div>`;
  if (type === "checkbox") {
    return html`<div class="field check">
      <label for=${id}>
        <input ...${common} type="checkbox" checked=${Boolean(value)}
          onChange=${(event) => onInput(event.target.checked, event)} />
        <span>${label}</span>
      </label>
      ${below}
    </div>`;
  }
  return html`<div class="field">
    <label for=${id}>${label}${required && html`<span class="needed" aria-hidden="true"> *</span>`}
    </label>
    ${control({ common, type, value, onInput, options, id })} ${below}
  </div>`;
}

function control({ common, type, value, onInput, options, id }) {
  const input = (event) => onInput(event.target.value, event);
  if (type === "textarea") {
    return html`<textarea rows="5" ...${common} value=${value} onInput=${input}></textarea>`;
  }
  if (type === "select") {
    return html`<select ...${common} value=${value} onChange=${input}>
      ${options.map((each) => {
        const plain = typeof each !== "object";
        const { value: own, label } = plain ? { value: each, label: each } : each;
        return html`<option key=${own} value=${own} selected=${own === value}>${label}</option>`;
      })}
    </select>`;
  }
  const list = options ? `${id}-list` : undefined;
  return html`<input ...${common} type=${type} value=${value} list=${list} onInput=${input} />
    ${options &&
    html`<datalist id=${list}>
      ${options.map((each) => html`<option key=${each} value=${each}></option>`)}
    </datalist>`}`;
}
