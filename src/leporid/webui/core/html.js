/* Preact and htm under one name, for every other file.

   `html` makes text nodes of all values, so that no name from the broker becomes markup.
   Must not know anything of the broker. */

import htm from "../vendor/htm.js";
import { Fragment, h, render } from "../vendor/preact.js";
import {
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/hooks.js";

/** Tagged template: html`<p>${text}</p>`. */
export const html = htm.bind(h);

export {
  Fragment,
  render,
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
};
