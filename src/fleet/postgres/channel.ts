/** The name of the channel, in SQL. Each log of a database has its own. */
export const CHANNEL = `'svc.' || current_schema()`;

/** Sends a notice, which is an expression of SQL. It has the form of a `FleetChange`. */
export function notify(notice: string): string {
  return `pg_notify(${CHANNEL}, ${notice})`;
}

/** Notifies all nodes of a change. Their poll finds it too. */
export function notifyOf(news: 'waiting' | 'asks'): string {
  return notify(`'{"last_seq":0,"streams":[],"${news}":true}'`);
}
