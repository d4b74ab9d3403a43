/* "Bind with this": a binding of a queue to an exchange with the filter of the bench. */

import { html, useEffect, useState } from "../core/html.js";
import { post } from "../core/api.js";
import { useData } from "../core/data.js";
import { href } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";
import { Notice } from "./notice.js";
import { Same } from "./page.js";

/** The arguments of a binding with a filter. */
export function argumentsOf({ filter, tags, dialect }) {
  return {
    ...(tags ? { "x-filter-tags": tags } : {}),
    ...(filter ? { "x-filter-sql": filter } : {}),
    ...(filter && dialect === "rocketmq" ? { "x-filter-dialect": dialect } : {}),
  };
}

/** @param {{open: boolean, onClose: Function, vhost: string, queue: string, test: object}} props */
export function FilterBind({ open, onClose, vhost, queue, test }) {
  const [exchange, setExchange] = useState("");
  const [to, setTo] = useState(queue);
  const [key, setKey] = useState("#");
  const [done, setDone] = useState(null);
  const exchanges = useData(open ? ["exchanges", vhost] : null, {
    page: 1, page_size: 100, name: exchange || undefined, columns: "name,type",
  });
  const queues = useData(open ? ["queues", vhost] : null, {
    page: 1, page_size: 50, name: to || undefined, columns: "name",
  });
  useEffect(() => { setTo(queue); setDone(null); }, [open, queue]);
  const names = (exchanges.data?.items ?? []).map((one) => one.name).filter(Boolean);
  const type = exchanges.data?.items.find((one) => one.name === exchange)?.type;
  const path = ["bindings", vhost, "e", exchange, "q", to];
  const body = { routing_key: key, arguments: argumentsOf(test) };
  const mayNotRead = useReasonNotTo("read", vhost, exchange);
  const mayNotWrite = useReasonNotTo("write", vhost, to);
  const why = (exchange && mayNotRead) || (to && mayNotWrite) || "";
  const bind = async () => {
    await post(path, body);
    setDone({ exchange, to });
  };
  return html`<${Dialog} open=${open} title="Bind with this filter" onClose=${onClose}>
    <div class="box"><code class="name">${
      [test.tags && `tags: ${test.tags}`, test.filter].filter(Boolean).join("\n")}</code></div>
    <${Form} onSubmit=${bind} submit="Bind" why=${why}
      disabled=${!exchange || !to} onCancel=${onClose}>
      <${Field} label="Exchange" name="exchange" value=${exchange} onInput=${setExchange} required
        options=${names} autocomplete="off"
        hint=${type ? `of type ${type}` : "where it comes in"} />
      <${Field} label="Queue" name="queue" value=${to} onInput=${setTo} required
        options=${(queues.data?.items ?? []).map((one) => one.name)} autocomplete="off" />
      <${Field} label="Routing key" name="key" value=${key} onInput=${setKey}
        hint="The key must match as well; # is any key of a topic exchange." />
    <//>
    ${done && html`<${Notice} kind="good">Bound. <a href=${href(["queues", vhost, done.to])}>Queue
      ${" "}<span class="name">${done.to}</span></a> gets what passes the filter.<//>`}
    ${exchange && to && html`<${Same} http=${{ method: "POST", path, body }} />`}
  <//>`;
}
