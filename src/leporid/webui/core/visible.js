/* Whether somebody can see this tab: what is hidden asks the broker nothing.

   Must not know what is asked. */

import { useEffect, useState } from "./html.js";

/** Return whether the tab can be seen; the component is drawn again when that changes. */
export function useVisible() {
  const [visible, set] = useState(!document.hidden);
  useEffect(() => {
    const changed = () => set(!document.hidden);
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  return visible;
}
