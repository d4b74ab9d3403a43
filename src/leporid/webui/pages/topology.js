/* The topology of a virtual host, or of what has a name. Must not know how a graph is drawn. */

import { html, useEffect, useRef, useState } from "../core/html.js";
import { list } from "../core/commands.js";
import { setQuery } from "../core/route.js";
import { Page } from "../parts/page.js";
import { TopologyGraph } from "../parts/topology.js";
import { InVhost } from "../parts/in_vhost.js";

const TYPING_MS = 300;

export default function Topology({ query }) {
  return html`<${InVhost} title="Topology" page=${InTopology} query=${query} />`;
}

function InTopology({ vhost, query }) {
  const name = query.name ?? "";
  const path = ["topology", vhost];
  return html`
    <${Page} title="Topology" http=${{ method: "GET", path, query: name ? { name } : undefined }}
      cli=${["exchanges", "bindings", "queues"].map((noun) => list(noun, {}, vhost))}
      head=${html`Topology <span class="crumb">of <span class="name">${vhost}</span></span>`}>
      <${Name} name=${name} />
      <${TopologyGraph} key=${`${vhost} ${name}`} vhost=${vhost} name=${name || undefined} />
    <//>`;
}

/** What the broker is asked for: objects with this in their names, and what is next to them. */
function Name({ name }) {
  const [text, setText] = useState(name);
  const timer = useRef(null);
  useEffect(() => setText(name), [name]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(
      () => setQuery({ name: value || null }, { replace: true }), TYPING_MS,
    );
  };
  return html`<div class="row">
    <label class="search"><span class="only-read">Show only objects with this in their names, and
      what is next to them</span>
      <input type="search" placeholder="Only with this in the name" value=${text}
        spellcheck=${false} onInput=${typed} /></label>
    <span class="soft">with what is next to it</span>
  </div>`;
}
