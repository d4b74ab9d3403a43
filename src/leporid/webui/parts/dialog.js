/* A dialog that holds the focus until it is closed: the browser's own <dialog>.

   Must not know what is in it. */

import { html, useEffect, useRef } from "../core/html.js";

let ids = 0;

/** @param {object} props open, title, onClose (also at Escape), children, wide. */
export function Dialog({ open, title, onClose, wide = false, children }) {
  const dialog = useRef(null);
  const id = useRef(null);
  id.current ??= `dialog-${(ids += 1)}`;
  useEffect(() => {
    const element = dialog.current;
    if (!open || !element) {
      return undefined;
    }
    // The element goes when it is closed, so the browser cannot give the focus back.
    const before = document.activeElement;
    if (!element.open) {
      element.showModal();
    }
    return () => before?.isConnected && before.focus();
  }, [open]);
  if (!open) {
    return null;
  }
  const cancelled = (event) => {
    event.preventDefault();
    onClose();
  };
  const pressed = (event) => {
    // The dialog itself is hit only beside what is in it.
    if (event.target === dialog.current) {
      onClose();
    }
  };
  return html`<dialog
    ref=${dialog}
    class=${wide ? "dialog wide" : "dialog"}
    aria-labelledby=${id.current}
    onCancel=${cancelled}
    onMouseDown=${pressed}
  >
    <div class="dialog-inner">
      <div class="dialog-head">
        <h2 id=${id.current}>${title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick=${onClose}>×</button>
      </div>
      ${children}
    </div>
  </dialog>`;
}
