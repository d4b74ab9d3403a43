/* Light or dark: by the system's preference, or as this browser's reader has chosen.

   Must not know who draws; charts, which are pixels, are told of a change. */

const KEY = "leporid.theme";
// Paper is light.
const MEDIA = {
  system: "screen and (prefers-color-scheme: dark)", light: "not all", dark: "screen",
};
const dark = matchMedia(MEDIA.system);
const listeners = new Set();

/** Return "system", "light" or "dark". */
export function theme() {
  const found = localStorage.getItem(KEY);
  return Object.hasOwn(MEDIA, found) ? found : "system";
}

/** Choose one of them, and remember it. */
export function setTheme(name) {
  if (name === "system") {
    localStorage.removeItem(KEY);
  } else {
    localStorage.setItem(KEY, name);
  }
  apply();
}

/** Put the choice in force; once at the start, and for each change. */
export function apply() {
  document.getElementById("dark").media = MEDIA[theme()];
  for (const listener of [...listeners]) {
    listener();
  }
}

/** Have a function called when colours change; returns what ends that. */
export function onThemeChange(call) {
  listeners.add(call);
  return () => listeners.delete(call);
}

dark.addEventListener("change", apply);
