/* Permissions as a matrix: users down, virtual hosts across, each cell to be changed.

   Must not know what a pattern allows. Invariant: what is asked for is bounded: PAGE users and
   ACROSS virtual hosts at a time. */

import { get } from "../core/api.js";
import { useData } from "../core/data.js";
import { count } from "../core/format.js";
import { html, useCallback, useEffect, useRef, useState } from "../core/html.js";
import { href, setQuery } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Empty } from "../parts/empty.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { PermissionDialog, PermissionSign, permissionText } from "../parts/permission_form.js";

const PAGE = 25;
const ACROSS = 8;
const TYPING_MS = 250;

/** The page #/permissions. */
export default function Permissions({ query }) {
  const asking = useUser();
  const why = reasonNot(asking, "administrator");
  const outcome = useOutcome();
  const [open, setOpen] = useState(null);
  const users = usePage(["users"], query, "user", PAGE);
  const vhosts = usePage(["vhosts"], query, "vhost-name", ACROSS);
  const names = users.items.map((each) => each.name);
  const granted = useGranted(names);
  const across = vhosts.items.map((each) => each.name);
  const known = vhosts.data && users.data && names.every((name) => granted.of.has(name));
  const error = users.error ?? vhosts.error ?? granted.error;
  return html`<${Page} title="Permissions" cli="leporid permissions list"
    http=${{ path: ["permissions"] }}>
    <p class="soft">What each user may do in each virtual host. Move with the arrow keys; Enter
      changes a cell.</p>
    ${outcome.shown} ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <div class="list-head">
      <${Search} label="Filter users" name="user" value=${query.user} />
      <${Search} label="Filter virtual hosts" name="vhost-name" value=${query["vhost-name"]} />
    </div>
    ${error ? null : users.data && users.items.length === 0
      ? html`<${Empty} title="No user matches"><a href=${href(["users"])}>All users</a><//>`
      : html`<div aria-busy=${known ? "false" : "true"}>
          <${Matrix} users=${names} vhosts=${across} granted=${granted.of}
            onOpen=${(user, vhost) =>
              setOpen({ user, vhost, permission: granted.of.get(user)?.get(vhost) })} />
        </div>`}
    <div class="matrix-pages">
      <${Steps} title="Users" found=${users} name="user-page" />
      <${Steps} title="Virtual hosts" found=${vhosts} name="vhost-name-page" />
    </div>
    <${PermissionDialog} of=${open} why=${why} onClose=${() => setOpen(null)}
      onDone=${(text) => {
        outcome.say(text);
        granted.reload();
      }} />
  <//>`;
}

/** One page of a list whose search and page stand in the address. */
function usePage(path, query, prefix, size) {
  const page = /^[1-9]\d{0,5}$/.test(query[`${prefix}-page`] ?? "") ? query[`${prefix}-page`] : "1";
  const { data, error } = useData(path, {
    page,
    page_size: size,
    sort: "name",
    columns: "name",
    name: query[prefix] || undefined,
  });
  return { data, error, items: data?.items ?? [], page: Number(page) };
}

/** The permissions of some users: a Map of Maps, and how to ask again. */
function useGranted(users) {
  const [found, setFound] = useState({ of: new Map(), error: null });
  const [version, setVersion] = useState(0);
  const key = JSON.stringify(users);
  useEffect(() => {
    const control = new AbortController();
    const one = async (user) => {
      const given = await get(["users", user, "permissions"], null, { signal: control.signal });
      return [user, new Map(given.map((each) => [each.vhost, each]))];
    };
    Promise.all(JSON.parse(key).map(one)).then(
      (entries) => !control.signal.aborted && setFound({ of: new Map(entries), error: null }),
      (error) => !control.signal.aborted && setFound((before) => ({ ...before, error })),
    );
    return () => control.abort();
  }, [key, version]);
  return { ...found, reload: () => setVersion((before) => before + 1) };
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The table; one cell at a time is in the order of tabs, as the grid pattern of WAI-ARIA says. */
function Matrix({ users, vhosts, granted, onOpen }) {
  const [at, setAt] = useState([0, 0]);
  const table = useRef(null);
  const row = Math.min(at[0], users.length - 1);
  const column = Math.min(at[1], vhosts.length - 1);
  const move = useCallback(
    (event) => {
      let to = null;
      if (event.key in MOVES) {
        const [down, right] = MOVES[event.key];
        to = [row + down, column + right];
      } else if (event.key === "Home") {
        to = [row, 0];
      } else if (event.key === "End") {
        to = [row, vhosts.length - 1];
      }
      if (to === null || to[0] < 0 || to[1] < 0) {
        return;
      }
      if (to[0] >= users.length || to[1] >= vhosts.length) {
        return;
      }
      event.preventDefault();
      setAt(to);
      table.current?.querySelector(`[data-at="${to[0]}-${to[1]}"]`)?.focus();
    },
    [row, column, users.length, vhosts.length],
  );
  return html`<div class="scroll">
    <table class="list matrix" role="grid" aria-label="Permissions" ref=${table} onKeyDown=${move}>
      <thead>
        <tr role="row">
          <th scope="col" role="columnheader">User</th>
          ${vhosts.map(
            (vhost) => html`<th scope="col" role="columnheader" key=${vhost}
              ><a class="name" href=${href(["vhosts", vhost])}>${vhost}</a></th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${users.map(
          (user, down) => html`<tr role="row" key=${user}>
            <th scope="row" role="rowheader"
              ><a class="name" href=${href(["users", user])}>${user}</a></th>
            ${vhosts.map((vhost, right) => {
              const permission = granted.get(user)?.get(vhost);
              const here = down === row && right === column;
              return html`<td role="gridcell" key=${vhost}>
                <button type="button" class="cell" data-at=${`${down}-${right}`}
                  tabindex=${here ? 0 : -1}
                  aria-label=${`${user} in ${vhost}: ${permissionText(permission)}`}
                  title=${permissionText(permission)} disabled=${!granted.has(user)}
                  onFocus=${() => setAt([down, right])}
                  onClick=${() => onOpen(user, vhost)}
                  >${granted.has(user)
                    ? html`<${PermissionSign} permission=${permission} />`
                    : html`<span class="soft">…</span>`}</button>
              </td>`;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Search({ label, name, value }) {
  const [text, setText] = useState(value ?? "");
  const timer = useRef(null);
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const given = event.target.value;
    setText(given);
    clearTimeout(timer.current);
    timer.current = setTimeout(
      () => setQuery({ [name]: given || null, [`${name}-page`]: null }, { replace: true }),
      TYPING_MS,
    );
  };
  return html`<label class="search"><span class="only-read">${label}</span
    ><input type="search" placeholder=${label} value=${text} spellcheck=${false}
      onInput=${typed} /></label>`;
}

function Steps({ title, found, name }) {
  const { data, page } = found;
  if (!data || data.page_count <= 1) {
    return null;
  }
  const to = (number) => () => setQuery({ [name]: number === 1 ? null : String(number) });
  return html`<nav class="pages" aria-label=${`Pages of ${title.toLowerCase()}`}>
    <span>${title}</span>
    <${Button} disabled=${page <= 1} label=${`Previous ${title.toLowerCase()}`}
      onClick=${to(page - 1)}>‹<//>
    <span class="pages-at">${count(page)} of ${count(data.page_count)}</span>
    <${Button} disabled=${page >= data.page_count} label=${`Next ${title.toLowerCase()}`}
      onClick=${to(page + 1)}>›<//>
  </nav>`;
}
