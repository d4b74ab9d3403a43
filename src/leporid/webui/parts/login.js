/* The form that logs in, and the way to a server of OAuth 2 if the broker names one.

   Must not know what a user may do. Invariant: the password is sent once, in the body of a POST. */

import { get, url } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { hasEnded, login } from "../core/session.js";
import { Field, Form } from "./form.js";
import { Notice } from "./notice.js";

/** @param {object} props failed: an error that kept the broker from saying who is logged in. */
export function Login({ failed }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [auth, setAuth] = useState(null);
  useEffect(() => {
    document.title = "Log in · Leporid";
    get(["auth"]).then(setAuth, () => {});
  }, []);
  const send = async () => {
    try {
      await login(name, password);
    } finally {
      setPassword("");
    }
  };
  return html`<main class="login">
    <h1><span class="brand-mark" aria-hidden="true"></span>Leporid</h1>
    ${failed && html`<${Notice} kind="bad">${failed.message}<//>`}
    ${!failed && hasEnded() && html`<${Notice} kind="info">Your session has ended.<//>`}
    <${Form} submit="Log in" onSubmit=${send}>
      <${Field} label="User" name="username" value=${name} onInput=${setName} required=${true}
        autocomplete="username" autocapitalize="none" spellcheck=${false} autofocus=${true} />
      <${Field} label="Password" name="password" type="password" value=${password}
        onInput=${setPassword} autocomplete="current-password" />
    <//>
    ${auth?.oauth_enabled &&
    html`<p class="login-or"
      ><a class="button" href=${url(["session", "oauth"])}>Log in with OAuth 2</a></p>`}
  </main>`;
}
