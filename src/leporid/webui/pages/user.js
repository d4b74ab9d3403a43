/* One user: tags, password, permissions, limits, connections, logins.

   Must not know what a right allows. Invariant: a change of tags keeps the password, whose hash is
   sent back as it came. */

import { put, remove } from "../core/api.js";
import { command } from "../core/commands.js";
import { useData } from "../core/data.js";
import { html, useState } from "../core/html.js";
import { go, href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Dialog } from "../parts/dialog.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { Limits } from "../parts/limits.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { PermissionList } from "../parts/permission_list.js";
import { TagFields, TagLabels, tagList } from "../parts/tags.js";
import { TopicPermissions } from "../parts/topic_permissions.js";
import { UserConnections } from "../parts/user_connections.js";
import { UserSessions } from "../parts/user_sessions.js";

const LIMITS = [
  ["max-connections", "Connections at a time"],
  ["max-channels", "Channels of all connections together"],
];

/** The page #/users/NAME. */
export default function User({ parts }) {
  const name = parts[1];
  const asking = useUser();
  const why = reasonNot(asking, "administrator");
  const { data, error, reload } = useData(["users", name]);
  const [open, setOpen] = useState("");
  const outcome = useOutcome();
  const close = () => setOpen("");
  const done = (text) => {
    outcome.say(text);
    reload();
  };
  const actions = html`
    <${Button} why=${why} onClick=${() => setOpen("tags")}>Change tags<//>
    <${Button} why=${why} onClick=${() => setOpen("password")}>Change password<//>
    <${Button} kind="danger" why=${why} onClick=${() => setOpen("delete")}>Delete user<//>`;
  return html`<${Page} title=${`User ${name}`}
    head=${html`User <span class="name">${name}</span>`} actions=${data && actions}
    cli=${command("users show", [name])} http=${{ path: ["users", name] }}>
    ${outcome.shown}
    ${error && html`<${Missing} error=${error} name=${name} />`}
    ${data &&
    html`<${Facts} user=${data} />
      <${PermissionList} of=${{ user: name }} why=${why} onSaid=${outcome.say} />
      <${TopicPermissions} of=${{ user: name }} why=${why} onSaid=${outcome.say} />
      <${Limits} path=${["user-limits", name]} limits=${LIMITS} why=${why} values=${data.limits}
        onDone=${done} />
      <${UserConnections} name=${name} onSaid=${outcome.say} />
      <${UserSessions} name=${name} own=${asking?.name === name} why=${why}
        onSaid=${outcome.say} />
      <${ChangeTags} open=${open === "tags"} user=${data} onClose=${close} onDone=${done} />
      <${ChangePassword} open=${open === "password"} user=${data} onClose=${close}
        onDone=${done} />
      <${Confirm} open=${open === "delete"} title=${`Delete user ${name}`} danger typed=${name}
        what="Its connections are closed, and its permissions are gone. This cannot be undone."
        yes="Delete user" onClose=${close}
        onYes=${async () => {
          await remove(["users", name]);
          go(["users"]);
        }} />`}
  <//>`;
}

function Missing({ error, name }) {
  if (error.status !== 404) {
    return html`<${Notice} kind="bad">${error.message}<//>`;
  }
  return html`<${Empty} title=${`There is no user ${name}`}>
    <a href=${href(["users"])}>All users</a><//>`;
}

function Facts({ user }) {
  return html`<section class="box"><dl class="key">
    <dt>Tags</dt><dd><${TagLabels} tags=${user.tags} /></dd>
    <dt>Password</dt><dd>${user.password_hash
      ? `kept as ${user.hashing_algorithm}`
      : "none: this user cannot log in by a password"}</dd>
  </dl></section>`;
}

function ChangeTags({ open, user, onClose, onDone }) {
  const [tags, setTags] = useState(null);
  const shown = tags ?? tagList(user.tags);
  const close = () => {
    setTags(null);
    onClose();
  };
  const save = async () => {
    const { password_hash, hashing_algorithm } = user;
    const secret = password_hash ? { password_hash, hashing_algorithm } : { password_hash: "" };
    await put(["users", user.name], { ...secret, tags: shown.join(",") });
    onDone("The tags are changed.");
    close();
  };
  return html`<${Dialog} open=${open} title="Change tags" onClose=${close}>
    <${Form} onSubmit=${save} submit="Change tags" onCancel=${close}>
      <${TagFields} tags=${shown} onChange=${setTags} />
    <//>
  <//>`;
}

function ChangePassword({ open, user, onClose, onDone }) {
  const [given, setGiven] = useState({ password: "", again: "", none: false });
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const close = () => {
    setGiven({ password: "", again: "", none: false });
    onClose();
  };
  const save = async () => {
    const { password, again, none } = given;
    if (!none && !password) {
      throw new Error("Type a password, or tick that there is none.");
    }
    if (!none && password !== again) {
      throw new Error("The two passwords differ.");
    }
    const secret = none ? { password_hash: "" } : { password };
    await put(["users", user.name], { ...secret, tags: tagList(user.tags).join(",") });
    onDone("The password is changed. Connections that are open stay open.");
    close();
  };
  const differs = given.again !== "" && given.again !== given.password;
  return html`<${Dialog} open=${open} title="Change password" onClose=${close}>
    <${Form} onSubmit=${save} submit="Change password" onCancel=${close}>
      <${Field} label="New password" name="password" type="password" value=${given.password}
        onInput=${set("password")} autocomplete="new-password" disabled=${given.none} />
      <${Field} label="New password again" name="again" type="password" value=${given.again}
        onInput=${set("again")} autocomplete="new-password" disabled=${given.none}
        error=${differs ? "It differs from the password." : undefined} />
      <${Field} label="No password" name="none" type="checkbox" value=${given.none}
        onInput=${set("none")} hint="This user can then log in by certificate or token only." />
    <//>
  <//>`;
}
