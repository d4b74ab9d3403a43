/* What is done to a queue or a stream as a whole: pause, purge, delete, with their questions.

   Must not know which page it stands on. Invariant: a stream is not purged, as retention alone
   drops what it keeps; with partitions it is deleted as one. */

import { put, remove } from "../core/api.js";
import { counted } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { go } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Notice } from "./notice.js";

/**
 * @param {object} props
 * @param {object} props.queue as the API shows it; of a stream, the partition that is shown.
 * @param {string} [props.stream] the name of the stream.
 * @param {function(): Promise} props.reload called when something was changed.
 */
export function QueueActions({ queue, stream, reload }) {
  const [asked, setAsked] = useState(null);
  const [error, setError] = useState(null);
  const { vhost, name } = queue;
  const mayNotConfigure = useReasonNotTo("configure", vhost, name);
  const mayNotRead = useReasonNotTo("read", vhost, name);
  const paused = queue.state === "paused";
  const pause = async () => {
    setError(null);
    try {
      await put(["queues", vhost, name, paused ? "resume" : "pause"]);
      await reload();
    } catch (refused) {
      setError(refused);
    }
  };
  const close = () => setAsked(null);
  const purge = async () => {
    await remove(["queues", vhost, name, "contents"]);
    await reload();
  };
  const destroy = async () => {
    await remove(stream === undefined ? ["queues", vhost, name] : ["streams", vhost, stream]);
    go([stream === undefined ? "queues" : "streams"]);
  };
  const messages = counted(queue.messages, "message");
  const what = stream === undefined
    ? `The queue, its bindings and ${messages} will be gone, and
        ${counted(queue.consumers, "consumer")} cancelled.`
    : "The stream, all of its partitions, their messages and bindings, and the positions of its " +
      "readers will be gone.";
  return html`${error &&
    html`<${Notice} kind="bad" onClose=${() => setError(null)}>${error.message}<//>`}
    <${Button} onClick=${pause} why=${mayNotConfigure}
      title=${paused ? "" : "A paused queue takes messages and gives none."}
      >${paused ? "Resume" : "Pause"}<//>
    ${stream === undefined &&
    html`<${Button} kind="danger" why=${mayNotRead} onClick=${() => setAsked("purge")}
      >Purge<//>`}
    <${Button} kind="danger" why=${mayNotConfigure} onClick=${() => setAsked("delete")}>Delete<//>
    <${Confirm} open=${asked === "purge"} title="Purge this queue" yes="Purge" danger=${true}
      typed=${name} onYes=${purge} onClose=${close}
      what=${`What is ready will be gone: ${counted(queue.messages_ready, "message")}.
        Unacked messages stay with their consumers.`} />
    <${Confirm} open=${asked === "delete"} yes="Delete" danger=${true} typed=${stream ?? name}
      title=${stream === undefined ? "Delete this queue" : "Delete this stream"} what=${what}
      onYes=${destroy} onClose=${close} />`;
}
