/* The search box of the shell: jumps to a queue, a stream or an exchange by its name.

   It is a combobox as WAI-ARIA has it: arrows choose, Enter goes there, Escape closes. Must not
   know the pages it leads to, but for their addresses. */

import { get } from "../core/api.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { exchangeSegment, go } from "../core/route.js";

const TYPING_MS = 150;
const EACH = 8;

async function find(text, signal) {
  const query = { page: 1, page_size: EACH, name: text, columns: "name,vhost,type" };
  const [queues, exchanges] = await Promise.all([
    get(["queues"], { ...query, disable_stats: "true" }, { signal }),
    get(["exchanges"], query, { signal }),
  ]);
  return [
    ...queues.items.map((each) => {
      const kind = each.type === "stream" ? "stream" : "queue";
      const page = kind === "stream" ? "streams" : "queues";
      return { kind, vhost: each.vhost, name: each.name, parts: [page, each.vhost, each.name] };
    }),
    ...exchanges.items.map((each) => ({
      kind: "exchange",
      vhost: each.vhost,
      name: each.name || "(default)",
      parts: ["exchanges", each.vhost, exchangeSegment(each.name)],
    })),
  ];
}

/** Whether somebody is typing into something else. */
function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

/** The box; "/" leads to it from anywhere. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [at, setAt] = useState(0);
  const box = useRef(null);

  useEffect(() => {
    const pressed = (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !isTyping(event.target)) {
        event.preventDefault();
        box.current?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  useEffect(() => {
    if (!text.trim()) {
      setFound(null);
      return undefined;
    }
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setFound(await find(text.trim(), control.signal));
        setAt(0);
      } catch (error) {
        if (error.name !== "AbortError") {
          setFound([]);
        }
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);

  const leave = () => {
    setText("");
    setFound(null);
  };
  const pick = (one) => {
    leave();
    box.current?.blur();
    go(one.parts);
  };
  const pressed = (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape") {
      leave();
    } else if (event.key in steps && found?.length) {
      event.preventDefault();
      setAt((at + steps[event.key] + found.length) % found.length);
    } else if (event.key === "Enter" && found?.[at]) {
      event.preventDefault();
      pick(found[at]);
    }
  };
  const open = found !== null;
  return html`<div class="finder">
    <input
      ref=${box}
      type="search"
      role="combobox"
      aria-label="Go to a queue, stream or exchange"
      aria-expanded=${open ? "true" : "false"}
      aria-controls="finder-list"
      aria-autocomplete="list"
      aria-activedescendant=${open && found.length ? `finder-${at}` : undefined}
      placeholder="Go to…  /"
      value=${text}
      spellcheck=${false}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${pressed}
      onBlur=${() => setTimeout(() => setFound(null), 150)}
    />
    <ul id="finder-list" role="listbox" aria-label="Found" hidden=${!open}>
      ${open &&
      found.map(
        (one, place) =>
          html`<li
            key=${`${one.kind} ${one.vhost} ${one.name}`}
            id=${`finder-${place}`}
            role="option"
            aria-selected=${place === at ? "true" : "false"}
            onMouseDown=${(event) => {
              event.preventDefault();
              pick(one);
            }}
          >
            <span class="name found">${one.name}</span>
            <span class="soft">${one.kind} · ${one.vhost}</span>
          </li>`,
      )}
      ${open && found.length === 0 && html`<li class="soft" role="option" aria-disabled="true"
        aria-selected="false">No queue, stream or exchange has this in its name.</li>`}
    </ul>
  </div>`;
}
