/* Zooming and panning of an SVG scene: by wheel, pointer, two fingers and calls.
   Must not know what is drawn. Invariants: a picture that moves is not painted anew, but its layer
   is moved, once in a frame however many events there were; it is painted anew when it rests, or
   when a part of the scene comes into sight that it does not have. */

import { useEffect, useMemo, useRef } from "../core/html.js";
import { BOX } from "./topology_layout.js";

const LEAST = 0.05;
const MOST = 2.5;
const READABLE = 0.62;
const MARGIN = 28;
/** Of the buttons at the lower edge. */
const BOTTOM = 56;
/** Below these, small print and then names are too small to be read. */
const FAR = 0.5;
const FARTHER = 0.3;
const SETTLED_MS = 150;
/** How far the picture goes beyond the frame on each side; the same numbers are in drawings.css. */
const BEYOND = { x: 600, y: 400 };

/**
 * @param frame a ref to the element with the svg, @param picture one to the svg, @param scene one
 *   to the g in it.
 * @param {{width: number, height: number}} size of the scene.
 * @param {string} structure when it changes, the scene is placed anew.
 * @param {{x: number, y: number}} [own] the box that is seen at first.
 * @returns {{zoom: (by: number) => void, fit: () => void, show: (place) => void}}
 */
export function useView({ frame, picture, scene }, size, structure, own) {
  const at = useRef({ x: 0, y: 0, k: 1, touched: false });
  const sizeNow = useRef(size);
  sizeNow.current = size;
  const view = useMemo(() => viewOf({ frame, picture, scene }, at.current, sizeNow), []);
  useEffect(() => view.listen(), []);
  useEffect(() => {
    if (!at.current.touched) view.begin(own);
  }, [structure]);
  return view;
}

function viewOf({ frame, picture, scene }, at, size) {
  const box = () => frame.current.getBoundingClientRect();
  const paint = () => {
    if (!scene.current) return;
    at.painted = { x: at.x, y: at.y, k: at.k };
    const [x, y] = [at.x + BEYOND.x, at.y + BEYOND.y];
    scene.current.setAttribute("transform", `translate(${x},${y}) scale(${at.k})`);
    picture.current.style.transform = "";
    picture.current.classList.toggle("is-far", at.k < FAR);
    picture.current.classList.toggle("is-farther", at.k < FARTHER);
  };
  const apply = () => {
    clearTimeout(at.settles);
    paint();
  };
  const moveLayer = () => {
    at.next = null;
    if (!picture.current) return;
    if (!isPainted(at, box(), size.current)) {
      paint();
      return;
    }
    const by = at.k / at.painted.k;
    const [x, y] = [at.x - at.painted.x * by, at.y - at.painted.y * by];
    picture.current.style.transform = `translate(${x}px,${y}px) scale(${by})`;
  };
  const move = () => {
    at.touched = true;
    at.next ??= requestAnimationFrame(moveLayer);
    clearTimeout(at.settles);
    at.settles = setTimeout(paint, SETTLED_MS);
  };
  const zoomAt = (by, x, y) => {
    const k = Math.min(MOST, Math.max(LEAST, at.k * by));
    at.x = x - ((x - at.x) * k) / at.k;
    at.y = y - ((y - at.y) * k) / at.k;
    at.k = k;
    move();
  };
  const place = (k, own) => {
    const { width, height } = box();
    const { width: w, height: h } = size.current;
    at.k = k;
    at.x = Math.max(MARGIN, (width - w * k) / 2);
    at.y = Math.max(MARGIN, (height - BOTTOM - h * k) / 2);
    at.touched = false;
    apply();
    if (own) show(own);
  };
  const whole = () => {
    const { width, height } = box();
    const { width: w, height: h } = size.current;
    return Math.min((width - 2 * MARGIN) / w, (height - MARGIN - BOTTOM) / h);
  };
  const fit = () => frame.current && place(Math.min(1.1, Math.max(whole(), LEAST)), null);
  // At first rather readable from the beginning than all of it as dust.
  const begin = (own) => frame.current && place(Math.min(1.1, Math.max(whole(), READABLE)), own);
  const show = (place) => {
    if (!place || !frame.current) return;
    const { width, height } = box();
    const x = place.x * at.k + at.x;
    const y = place.y * at.k + at.y;
    const right = x + BOX.width * at.k;
    const bottom = y + BOX.height * at.k;
    if (x < MARGIN || right > width - MARGIN) at.x += width / 2 - (x + right) / 2;
    if (y < MARGIN || bottom > height - BOTTOM) at.y += height / 2 - (y + bottom) / 2;
    apply();
  };
  const zoom = (by) => {
    const { width, height } = box();
    zoomAt(by, width / 2, height / 2);
  };
  const listen = () => {
    const stop = listenTo(frame.current, box, at, zoomAt, move);
    return () => {
      stop();
      cancelAnimationFrame(at.next);
      clearTimeout(at.settles);
    };
  };
  return { zoom, fit, begin, show, listen };
}

/** Whether the picture has all of the scene that is in the frame. */
function isPainted(at, { width, height }, scene) {
  const { painted } = at;
  const has = (from, to, most, place, was, beyond) => {
    const [first, last] = [Math.max(0, (from - place) / at.k), Math.min(most, (to - place) / at.k)];
    const inPicture = (value) => value * painted.k + was;
    return first >= last || (inPicture(first) >= -beyond && inPicture(last) <= to + beyond);
  };
  return has(0, width, scene.width, at.x, painted.x, BEYOND.x)
    && has(0, height, scene.height, at.y, painted.y, BEYOND.y);
}

function listenTo(element, box, at, zoomAt, moved) {
  const fingers = new Map();
  const place = (event) => {
    const { left, top } = box();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const wheel = (event) => {
    // Without a modifier the wheel scrolls the page, unless the graph has the focus.
    if (!event.ctrlKey && !event.metaKey && !element.contains(document.activeElement)) return;
    event.preventDefault();
    const { x, y } = place(event);
    zoomAt(Math.exp(-event.deltaY * 0.0016), x, y);
  };
  const down = (event) => {
    if (event.button > 0) return;
    fingers.set(event.pointerId, place(event));
  };
  const move = (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = place(event);
    if (fingers.size === 1) {
      if (!at.dragging && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
      if (!at.dragging) element.setPointerCapture(event.pointerId);
      at.dragging = true;
      at.x += now.x - before.x;
      at.y += now.y - before.y;
      moved();
    } else {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(now.x - other.x, now.y - other.y);
      if (was > 0) zoomAt(is / was, (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    fingers.set(event.pointerId, now);
  };
  const up = (event) => {
    fingers.delete(event.pointerId);
    if (!fingers.size) at.dragging = false;
  };
  const events = { wheel, pointerdown: down, pointermove: move, pointerup: up, pointercancel: up };
  for (const [name, handler] of Object.entries(events)) {
    element.addEventListener(name, handler, { passive: false });
  }
  return () => {
    for (const [name, handler] of Object.entries(events)) {
      element.removeEventListener(name, handler);
    }
  };
}
