/* The page's beginning: who is logged in, and which page the address means.

   Must not know what a page shows. A page is loaded when somebody goes there first. */

import { html, render, useEffect, useErrorBoundary, useState } from "./core/html.js";
import { href, useRoute } from "./core/route.js";
import { resume, useSession } from "./core/session.js";
import { apply } from "./core/theme.js";
import { Login } from "./parts/login.js";
import { Notice } from "./parts/notice.js";
import { Page } from "./parts/page.js";
import { Unloaded } from "./parts/unloaded.js";
import { Shell } from "./parts/shell.js";

const ADMIN = { group: "Admin", tag: "administrator" };

/* [pattern, load, title, {group, tag}]: a word that begins with ":" matches any name. Pages with a
   title stand in the navigation, in this order; `tag` is what a user needs there. */
const PAGES = [
  // Overview, connections, channels, exchanges, queues.
  [[], () => import("./pages/overview.js"), "Overview"],
  [["connections"], () => import("./pages/connections.js"), "Connections"],
  [["connections", ":name"], () => import("./pages/connection.js")],
  [["channels"], () => import("./pages/channels.js"), "Channels"],
  [["channels", ":name"], () => import("./pages/channel.js")],
  [["exchanges"], () => import("./pages/exchanges.js"), "Exchanges"],
  [["exchanges", ":vhost", ":name"], () => import("./pages/exchange.js")],
  [["queues"], () => import("./pages/queues.js"), "Queues"],
  [["queues", ":vhost", ":name"], () => import("./pages/queue.js")],

  // Streams, topology, filters, delays, dead letters.
  [["streams"], () => import("./pages/streams.js"), "Streams"],
  [["streams", ":vhost", ":name"], () => import("./pages/stream.js")],
  [["topology"], () => import("./pages/topology.js"), "Topology", { group: "Messages" }],
  [["filters"], () => import("./pages/filters.js"), "Filter bench", { group: "Messages" }],
  [["delays"], () => import("./pages/delays.js"), "Delays", { group: "Messages" }],
  [["dead-letters"], () => import("./pages/dead_letters.js"), "Dead letters",
    { group: "Messages" }],

  // Administration.
  [["pipelines"], () => import("./pages/pipelines.js"), "Pipelines"],
  [["users"], () => import("./pages/users.js"), "Users", ADMIN],
  [["users", ":name"], () => import("./pages/user.js")],
  [["permissions"], () => import("./pages/permissions.js"), "Permissions", ADMIN],
  [["vhosts"], () => import("./pages/vhosts.js"), "Virtual hosts", { group: "Admin" }],
  [["vhosts", ":name"], () => import("./pages/vhost.js")],
  [["policies"], () => import("./pages/policies.js"), "Policies", { group: "Admin" }],
  [["policies", "new"], () => import("./pages/policy.js")],
  [["policies", ":vhost", ":name"], () => import("./pages/policy.js")],
  [["operator-policies"], () => import("./pages/policies.js")],
  [["operator-policies", "new"], () => import("./pages/policy.js")],
  [["operator-policies", ":vhost", ":name"], () => import("./pages/policy.js")],
  [["limits"], () => import("./pages/limits.js"), "Limits", ADMIN],
  [["definitions"], () => import("./pages/definitions.js"), "Definitions", ADMIN],
  [["filter-classes"], () => import("./pages/filter_classes.js"), "Filter classes", ADMIN],
  [["filter-classes", ":name"], () => import("./pages/filter_class.js")],
  [["parameters"], () => import("./pages/parameters.js"), "Parameters", ADMIN],
  [["audit"], () => import("./pages/audit.js"), "Audit", ADMIN],
  [["backups"], () => import("./pages/backups.js"), "Backups", ADMIN],
  [["feature-flags"], () => import("./pages/features.js"), "Features", ADMIN],

  // Addresses of RabbitMQ's pages whose contents stand on others here.
  [["nodes", ":name"], () => import("./pages/overview.js")],
  [["cluster-name"], () => import("./pages/features.js")],
  [["deprecated-features"], () => import("./pages/features.js")],
];

/** Pages by group of the navigation, in the order in which the groups come. */
function grouped() {
  const groups = [];
  for (const page of PAGES) {
    const [, , title, more] = page;
    if (title) {
      const name = more?.group ?? "";
      let group = groups.find((each) => each.title === name);
      if (!group) {
        group = { title: name, pages: [] };
        groups.push(group);
      }
      group.pages.push(page);
    }
  }
  return groups;
}

const GROUPS = grouped();

function found(parts) {
  return PAGES.find(
    ([pattern]) =>
      pattern.length === parts.length &&
      pattern.every((word, at) => word.startsWith(":") || word === parts[at]),
  );
}

const loaded = new Map();

/** The page of the route, once its file is there. */
function Current() {
  const { parts, query } = useRoute();
  const page = found(parts);
  const [, drawn] = useState(0);
  const [failed, setFailed] = useState(null);
  const [broken, mend] = useErrorBoundary();
  const place = href(parts);
  useEffect(() => {
    setFailed(null);
    mend();
    if (page && !loaded.has(page)) {
      page[1]().then(
        (module) => {
          loaded.set(page, module.default);
          drawn((before) => before + 1);
        },
        (error) => setFailed(error),
      );
    }
  }, [place]);
  if (!page) {
    return html`<${Page} title="No such page">
      <${Notice} kind="warn">Nothing is at this address. <a href=${href([])}>Overview</a><//>
    <//>`;
  }
  if (failed) {
    return html`<${Page} title="This page could not be loaded"><${Unloaded} /><//>`;
  }
  if (broken) {
    return html`<${Page} title="This page does not work">
      <${Notice} kind="bad">${broken.message}<//>
    <//>`;
  }
  const Found = loaded.get(page);
  // The key: another object is another page, with a state of its own.
  return Found ? html`<${Found} key=${place} parts=${parts} query=${query} />` : null;
}

function App() {
  const { user } = useSession();
  if (user === null || user.failed) {
    return html`<${Login} failed=${user?.failed} />`;
  }
  return html`<${Shell} groups=${GROUPS} user=${user}><${Current} /><//>`;
}

async function start() {
  apply();
  await resume();
  const place = document.getElementById("app");
  place.replaceChildren();
  render(html`<${App} />`, place);
}

start();
