/* Reading counters and rates of the API's objects, where what has not happened is left out.

   Must not know which object it is. */

/** Return a rate per second of `message_stats`; 0 if nothing of it has happened. */
export function statRate(object, name) {
  return object?.message_stats?.[`${name}_details`]?.rate ?? 0;
}

/** Return a counter of `message_stats`; 0 if nothing of it has happened. */
export function statCount(object, name) {
  return object?.message_stats?.[name] ?? 0;
}
