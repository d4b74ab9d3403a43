/* One policy: its settings, and what it would govern before it is saved.

   Must not know how patterns are matched: the broker says it, by a dry run. Invariant: the preview
   that is shown is of what stands in the fields, or it is marked as being made. */

import { get, put, remove } from "../core/api.js";
import { command, inVhost, list, setPolicy } from "../core/commands.js";
import { useData } from "../core/data.js";
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { go, href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page, Same } from "../parts/page.js";
import { PolicyPreview } from "../parts/policy_preview.js";
import { definitionOf, rowsOf, SettingFields } from "../parts/policy_settings.js";

const KINDS = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const TYPING_MS = 300;

/** The pages #/policies/VHOST/NAME, #/policies/new, and the same of operator policies. */
export default function Policy({ parts, query }) {
  const [kind, vhost, name] = parts;
  const operator = kind === "operator-policies";
  const why = reasonNot(useUser(), operator ? "administrator" : "policymaker");
  const isNew = name === undefined;
  const { data, error } = useData(isNew ? null : [kind, vhost, name]);
  const noun = operator ? "operator policy" : "policy";
  const title = isNew ? `New ${noun}` : `${operator ? "Operator policy" : "Policy"} ${name}`;
  const policy = useMemo(
    () => (isNew ? { ...EMPTY, vhost: query.vhost ?? "/" } : data),
    [isNew, data, query.vhost],
  );
  return html`<${Page} title=${title}
    head=${isNew ? title : html`${operator ? "Operator policy" : "Policy"}${" "}
      <span class="name">${name}</span> <span class="crumb">in
      ${" "}<span class="name">${vhost}</span></span>`}
    actions=${!isNew && policy && html`<${Delete} path=${parts} noun=${noun} why=${why} />`}>
    ${error && html`<${Missing} error=${error} kind=${kind} name=${name} />`}
    ${policy &&
    html`<${Editor} key=${JSON.stringify(parts)} kind=${kind} noun=${noun} policy=${policy}
      isNew=${isNew} why=${why} operator=${operator} />`}
  <//>`;
}

const EMPTY = { name: "", pattern: "^", "apply-to": "queues", priority: 0, definition: {} };

function Missing({ error, kind, name }) {
  if (error.status !== 404) {
    return html`<${Notice} kind="bad">${error.message}<//>`;
  }
  return html`<${Empty} title=${`There is no ${name}`}><a href=${href([kind])}>All of them</a><//>`;
}

function Editor({ kind, noun, policy, isNew, why, operator }) {
  const [given, setGiven] = useState(() => ({
    name: policy.name,
    vhost: policy.vhost,
    pattern: policy.pattern,
    applyTo: policy["apply-to"],
    priority: String(policy.priority),
    rows: isNew ? [{ name: "max-length", text: "" }] : rowsOf(policy.definition),
  }));
  const outcome = useOutcome();
  const vhosts = useData(["vhosts"], { page: 1, page_size: 500, columns: "name" });
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const body = bodyOf(given);
  const path = [kind, given.vhost, given.name];
  const unfinished = given.rows.some((row) => row.name.trim() && !row.text.trim());
  const asked = why || unfinished ? null : previewPath(kind, given);
  const preview = usePreview(asked, body);
  const save = async () => {
    if (isNew && (await exists(path))) {
      throw new Error(`There is a ${noun} "${given.name}" in this virtual host already.`);
    }
    await put(path, body);
    if (isNew) {
      go(path, null, { replace: true });
    } else {
      outcome.say("The policy is saved and in force.");
      preview.again();
    }
  };
  const names = (vhosts.data?.items ?? []).map((each) => each.name);
  return html`${outcome.shown}
    <div class="beside">
      <${Form} onSubmit=${save} submit=${isNew ? `Add ${noun}` : "Save"} why=${why}>
        ${isNew &&
        html`<${Field} label="Name" name="name" value=${given.name} onInput=${set("name")}
            required autocomplete="off" spellcheck=${false} />
          <${Field} label="Virtual host" name="vhost" type="select" value=${given.vhost}
            onInput=${set("vhost")}
            options=${names.includes(given.vhost) ? names : [given.vhost, ...names]} />`}
        <${Field} label="Pattern" name="pattern" value=${given.pattern} onInput=${set("pattern")}
          autocomplete="off" spellcheck=${false}
          hint="A regular expression that is looked for in the name; anchor it with ^ and $." />
        <${Field} label="Applies to" name="apply-to" type="select" value=${given.applyTo}
          onInput=${set("applyTo")} options=${KINDS} />
        <${Field} label="Priority" name="priority" value=${given.priority} inputmode="numeric"
          onInput=${set("priority")} hint="Of several that match, the highest counts." />
        <${SettingFields} rows=${given.rows} onChange=${set("rows")} operator=${operator} />
      <//>
      <${PolicyPreview} preview=${preview}
        why=${why || (unfinished ? "Give each setting a value." : "")} />
    </div>
    <${Same} ...${linesOf(kind, given, body, isNew)} />`;
}

function Delete({ path, noun, why }) {
  const [kind, , name] = path;
  const [asking, setAsking] = useState(false);
  return html`<${Button} kind="danger" why=${why} onClick=${() => setAsking(true)}
      >Delete ${noun}<//>
    <${DeletePolicy} open=${asking} path=${path} noun=${noun} name=${name}
      onClose=${() => setAsking(false)} onGone=${() => go([kind])} />`;
}

/** What saves the policy as it stands in the fields; before it has a name, what lists all. */
function linesOf(kind, { vhost, name }, body, isNew) {
  if (!name) {
    return { cli: list(kind, {}, vhost), http: { path: [kind, vhost] } };
  }
  const path = [kind, vhost, name];
  const set = setPolicy(kind, vhost, name, body);
  const put = { method: "PUT", path, body };
  const show = command(`${kind} show`, [name], inVhost(vhost));
  return isNew ? { cli: set, http: put } : { cli: [show, set], http: [{ path }, put] };
}

async function exists(path) {
  try {
    await get(path);
    return true;
  } catch (error) {
    if (error.status === 404) {
      return false;
    }
    throw error;
  }
}

function bodyOf({ pattern, applyTo, priority, rows }) {
  return {
    pattern,
    "apply-to": applyTo,
    priority: /^-?\d{1,9}$/.test(priority.trim()) ? Number(priority) : priority,
    definition: definitionOf(rows),
  };
}

function previewPath(kind, { vhost, name }) {
  // A new one has no name yet; where it would stand among equals is known when it has.
  return [kind, vhost, name || "(unnamed)"];
}

/** Ask what a policy would govern, a moment after the last key. */
function usePreview(path, body) {
  const [found, setFound] = useState({ data: null, error: null, of: null });
  const [version, setVersion] = useState(0);
  const question = path && JSON.stringify([path, body]);
  useEffect(() => {
    if (question === null) {
      return undefined;
    }
    let ended = false;
    const timer = setTimeout(async () => {
      const [asked, sent] = JSON.parse(question);
      try {
        const data = await put(asked, sent, { dry_run: "true" });
        if (!ended) {
          setFound({ data, error: null, of: question });
        }
      } catch (error) {
        if (!ended) {
          setFound({ data: null, error, of: question });
        }
      }
    }, TYPING_MS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [question, version]);
  return {
    data: found.data,
    error: found.error,
    current: found.of === question,
    again: () => setVersion((before) => before + 1),
  };
}

function DeletePolicy({ open, path, noun, name, onClose, onGone }) {
  const [found, setFound] = useState({ data: null, error: null });
  useEffect(() => {
    if (open) {
      remove(path, null, { dry_run: "true" }).then(
        (data) => setFound({ data, error: null }),
        (error) => setFound({ data: null, error }),
      );
    }
  }, [open]);
  return html`<${Confirm} open=${open} title=${`Delete ${noun}`} danger typed=${name}
    what="What it governs is governed by the next policy that matches, or by none."
    onClose=${onClose}
    onYes=${async () => {
      await remove(path);
      onGone();
    }}>
    ${found.data &&
    html`<${PolicyPreview} preview=${{ ...found, current: true }} deleting />`}
  <//>`;
}
