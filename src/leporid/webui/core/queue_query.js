/* What the page of one queue asks the broker of it: all but its consumers.

   Must not know what is shown. A queue may have thousands of consumers, which only their own tab
   lists, a page at a time. */

const COLUMNS = [
  "name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "owner_pid_details",
  "arguments", "policy", "operator_policy", "effective_policy_definition", "consumers",
  "exclusive_consumer_tag", "single_active_consumer_tag", "messages", "messages_ready",
  "messages_unacknowledged", "message_bytes_ready", "message_stats",
];

export const QUEUE_QUERY = { columns: COLUMNS.join(",") };
