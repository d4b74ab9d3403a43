/* What stands around each page: navigation, search, virtual host, theme, user.

   Must not know what a page does; the table of pages is given. */

import { useData } from "../core/data.js";
import { moment } from "../core/format.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { CROWDED, useLost } from "../core/live.js";
import { href, setQuery, useRoute } from "../core/route.js";
import { logout, may, useFreshRights } from "../core/session.js";
import { setTheme, theme } from "../core/theme.js";
import { chooseVhost, useVhost } from "../core/vhost.js";
import { useVisible } from "../core/visible.js";
import { Alarms } from "./alarms.js";
import { Notice } from "./notice.js";
import { Search } from "./search.js";

const NAMES_EVERY_MS = 60_000;
const THEMES = [
  ["system", "Like the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

/** The links; the page of the route is marked. */
function Navigation({ groups, user, current, onGo }) {
  return html`<nav class="nav" id="nav" aria-label="Pages">
    ${groups.map(
      ({ title, pages }) =>
        html`<div class="nav-group" key=${title}>
          ${title && html`<h2>${title}</h2>`}
          <ul>
            ${pages.map(([pattern, , name, more]) => {
              const here = pattern.length ? pattern[0] === current : current === undefined;
              const without = more?.tag && !may(user, more.tag);
              return html`<li key=${name}>
                <a
                  href=${href(pattern)}
                  class=${without ? "without" : ""}
                  title=${without ? `For users with the tag "${more.tag}".` : undefined}
                  aria-current=${here ? "page" : undefined}
                  onClick=${onGo}
                  >${name}</a
                >
              </li>`;
            })}
          </ul>
        </div>`,
    )}
  </nav>`;
}

/** Says that what is shown is old. */
function Lost() {
  const found = useLost();
  return (
    found !== null &&
    html`<div class="banner lost"><${Notice} kind="warn">${found === CROWDED
      ? "As many pages are open as may have live figures. Lists are renewed here; alarms and " +
        "figures of this second are not, until another page of your user is closed."
      : `The broker has not answered since ${moment(found)}. What is shown may be older.`}
    <//></div>`
  );
}

/** Which broker this is, for who has pages of several. */
function Cluster() {
  const { data } = useData(["cluster-name"], {}, { every: NAMES_EVERY_MS });
  return data && html`<span class="cluster name" title="Cluster name">${data.name}</span>`;
}

function VhostChoice() {
  const chosen = useVhost();
  const { data } = useData(
    ["vhosts"],
    { columns: "name", page: 1, page_size: 500 },
    { every: NAMES_EVERY_MS },
  );
  const names = (data?.items ?? []).map((each) => each.name);
  if (chosen !== null && !names.includes(chosen)) {
    names.unshift(chosen);
  }
  const pick = (event) => {
    const { selectedIndex } = event.target;
    chooseVhost(selectedIndex === 0 ? null : names[selectedIndex - 1]);
  };
  return html`<label class="vhost"
    ><span class="only-read">Virtual host</span>
    <select onChange=${pick} title="Virtual host">
      <option selected=${chosen === null}>All virtual hosts</option>
      ${names.map(
        (name) => html`<option key=${name} selected=${name === chosen}>${name}</option>`,
      )}
    </select></label
  >`;
}

/** A menu that unfolds, and folds at Escape, or when the reader goes elsewhere. */
function Menu({ label, title, children }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    if (!open) {
      return undefined;
    }
    const elsewhere = (event) => {
      if (!box.current?.contains(event.target)) {
        setOpen(false);
      }
    };
    addEventListener("pointerdown", elsewhere);
    addEventListener("focusin", elsewhere);
    return () => {
      removeEventListener("pointerdown", elsewhere);
      removeEventListener("focusin", elsewhere);
    };
  }, [open]);
  const pressed = (event) => {
    if (event.key === "Escape" && open) {
      setOpen(false);
      box.current.querySelector("button").focus();
    }
  };
  return html`<div class="menu" ref=${box} onKeyDown=${pressed}>
    <button type="button" class="button quiet" aria-label=${label}
      aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${title}</button>
    ${open && html`<div class="menu-box">${children}</div>`}
  </div>`;
}

function UserMenu({ user }) {
  const [chosen, setChosen] = useState(theme());
  const pick = (name) => {
    setTheme(name);
    setChosen(name);
  };
  const tags = [user.tags].flat().join(", ");
  const title = html`<span class="name">${user.name}</span>`;
  return html`<${Menu} label=${`User ${user.name}`} title=${title}>
    <p class="menu-text"><strong class="name">${user.name}</strong><br />
      <span class="soft">${tags || "no tags"}</span></p>
    <fieldset class="themes">
      <legend>Theme</legend>
      ${THEMES.map(
        ([id, title]) =>
          html`<label key=${id}
            ><input type="radio" name="theme" checked=${id === chosen}
              onChange=${() => pick(id)} />${title}</label
          >`,
      )}
    </fieldset>
    <button type="button" class="button" onClick=${logout}>Log out</button>
  <//>`;
}

/**
 * @param {object} props
 * @param {{title: string, pages: Array[]}[]} props.groups of the table of pages.
 * @param {object} props.user who is logged in.
 */
export function Shell({ groups, user, children }) {
  const { parts, query } = useRoute();
  const vhost = useVhost();
  const [open, setOpen] = useState(false);
  useFreshRights(useVisible());
  const place = parts.join("/");
  const first = useRef(true);
  useEffect(() => {
    setOpen(false);
    if (!first.current) {
      // So that screen readers and keyboards begin at the page that was gone to.
      document.getElementById("page-title")?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [place]);
  useEffect(() => {
    // So that the address of a list shows the same to somebody else.
    if (parts.length === 1 && vhost !== null && query.vhost === undefined) {
      setQuery({ vhost }, { replace: true });
    }
  }, [place, vhost, query.vhost]);
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to the page</a>
    <header class="top">
      <button type="button" class="button quiet nav-button" aria-expanded=${open ? "true" : "false"}
        aria-controls="nav" aria-label="Menu" onClick=${() => setOpen(!open)}
        ><span class="bars" aria-hidden="true"></span></button>
      <a class="brand" href=${href([])}
        ><span class="brand-mark" aria-hidden="true"></span>Leporid</a>
      <${Search} />
      <${Cluster} />
      <${VhostChoice} />
      <${UserMenu} user=${user} />
    </header>
    <div class=${open ? "frame nav-open" : "frame"}>
      <${Navigation} groups=${groups} user=${user} current=${parts[0]}
        onGo=${() => setOpen(false)} />
      <main id="main" tabindex="-1"><${Lost} /><${Alarms} isOverview=${parts.length === 0} />
        ${children}</main>
    </div>`;
}
