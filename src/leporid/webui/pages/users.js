/* Users: the list, and adding one.

   Must not know what a tag or a permission allows; the broker decides. */

import { get, put } from "../core/api.js";
import { useData } from "../core/data.js";
import { html, useEffect, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href, setQuery } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Dialog } from "../parts/dialog.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { List } from "../parts/list.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { Tabs } from "../parts/tabs.js";
import { TagFields, TagLabels } from "../parts/tags.js";

const COLUMNS = [
  {
    name: "name",
    title: "User",
    sort: true,
    cell: (user) => html`<a class="name" href=${href(["users", user.name])}>${user.name}</a>`,
  },
  { name: "tags", title: "Tags", cell: (user) => html`<${TagLabels} tags=${user.tags} />` },
  {
    name: "password_hash",
    title: "Password",
    wide: true,
    cell: (user) =>
      user.password_hash
        ? html`<span class="soft">${algorithm(user.hashing_algorithm)}</span>`
        : html`<span class="state warn">none</span>`,
  },
  { name: "limits", title: "Limits", cell: (user) => limits(user.limits) },
];

/** Virtual hosts by the users who may enter them; null where they are too many to be asked for. */
function useEntered(version) {
  const { data, reload } = useData(["permissions"], {
    page: 1, page_size: PERMISSIONS_MAX, columns: "user,vhost",
  });
  useEffect(() => {
    reload();
  }, [version]);
  if (!data || data.page_count > 1) {
    return null;
  }
  const found = new Map();
  for (const { user, vhost } of data.items) {
    found.set(user, [...(found.get(user) ?? []), vhost]);
  }
  return found;
}

/** The column with them. */
function enters(entered) {
  return {
    name: "vhosts",
    title: "May enter",
    wide: true,
    cell: ({ name }) => {
      const vhosts = entered.get(name) ?? [];
      return vhosts.length
        ? vhosts.map((vhost, at) => html`${at > 0 && ", "}<a class="name" key=${vhost}
            href=${href(["vhosts", vhost])}>${vhost}</a>`)
        : html`<span class="state warn">no virtual host</span>`;
    },
  };
}

const PERMISSIONS_MAX = 500;
const KINDS = [
  { id: "all", title: "All users" },
  { id: "without", title: "Without permissions" },
];

function algorithm(name) {
  return String(name ?? "").replace("rabbit_password_hashing_", "salted ") || "set";
}

function limits(found) {
  const given = Object.entries(found ?? {});
  return given.length ? given.map(([name, value]) => `${name} ${value}`).join(", ") : "–";
}

/** The page #/users. */
export default function Users({ query }) {
  const user = useUser();
  const why = reasonNot(user, "administrator");
  const [adding, setAdding] = useState(false);
  const [version, setVersion] = useState(0);
  const outcome = useOutcome();
  const kind = query.kind === "without" ? "without" : "all";
  const entered = useEntered(version);
  const columns = entered === null
    ? COLUMNS : [...COLUMNS.slice(0, 2), enters(entered), ...COLUMNS.slice(2)];
  const path = kind === "without" ? ["users", "without-permissions"] : ["users"];
  const list = { path, sorted: "name" };
  const added = async (name, granted) => {
    setVersion((before) => before + 1);
    const grants = granted ? [] : await get(["users", name, "permissions"]);
    if (granted || grants.length) {
      outcome.say(`User ${name} is set.`);
    } else {
      outcome.say(html`User <span class="name">${name}</span> is set, and has no permissions yet:
        it can enter no virtual host. <a href=${href(["users", name])}>Give it some</a>`, "warn");
    }
  };
  const add = html`<${Button} kind="main" why=${why} onClick=${() => setAdding(true)}
    >Add user<//>`;
  return html`<${Page} title="Users" actions=${add} 
    ...${linesOf("users", list, query, null,
      { given: kind === "without" ? ["--without-permissions"] : [] })}>
    ${outcome.shown}
    <${Tabs} tabs=${KINDS} current=${kind} label="Which users"
      onPick=${(id) => setQuery({ kind: id === "all" ? null : id, page: null })} />
    <${List} ...${list} columns=${columns} rowKey=${(row) => row.name} caption="Users"
      version=${version}
      empty=${html`<${Empty} title=${kind === "all" ? "No users" : "Every user has permissions"}
        >${kind === "all" ? add
          : html`Who may what is a <a href=${href(["permissions"])}>matrix</a>.`}<//>`} />
    <${AddUser} open=${adding} onClose=${() => setAdding(false)} onAdded=${added} />
  <//>`;
}

const NEW = { name: "", password: "", again: "", tags: [], vhost: "" };

function AddUser({ open, onClose, onAdded }) {
  const [given, setGiven] = useState(NEW);
  const { data } = useData(open ? ["vhosts"] : null, { columns: "name", page: 1, page_size: 500 });
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const differs = given.again !== "" && given.again !== given.password;
  const close = () => {
    setGiven(NEW);
    onClose();
  };
  const save = async () => {
    const { name, password, again, tags, vhost } = given;
    if (password !== again) {
      throw new Error("The two passwords differ.");
    }
    const secret = password ? { password } : { password_hash: "" };
    await put(["users", name], { ...secret, tags: tags.join(",") });
    if (vhost) {
      const everything = { configure: ".*", write: ".*", read: ".*" };
      await put(["permissions", vhost, name], everything);
    }
    onAdded(name, Boolean(vhost));
    close();
  };
  const vhosts = (data?.items ?? []).map((each) => each.name);
  const options = [
    { value: "", label: "none yet" },
    ...vhosts.map((name) => ({ value: name, label: name })),
  ];
  return html`<${Dialog} open=${open} title="Add user" onClose=${close}>
    <${Form} onSubmit=${save} submit="Add user" onCancel=${close}>
      <${Field} label="Name" name="name" value=${given.name} onInput=${set("name")} required
        autocomplete="off" spellcheck=${false} />
      <${Field} label="Password" name="password" type="password" value=${given.password}
        onInput=${set("password")} autocomplete="new-password"
        hint="Without one, the user cannot log in by a password." />
      <${Field} label="Password again" name="again" type="password" value=${given.again}
        onInput=${set("again")} autocomplete="new-password"
        error=${differs ? "It differs from the password." : undefined} />
      <${TagFields} tags=${given.tags} onChange=${set("tags")} />
      <${Field} label="All permissions in" name="vhost" type="select" value=${given.vhost}
        onInput=${set("vhost")} options=${options}
        hint="Without permissions a user can enter no virtual host. Others can be set on its page."
        />
    <//>
  <//>`;
}
