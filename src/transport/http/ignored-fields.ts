import type { ServerResponse } from 'node:http';
import type { Log } from '../../ports/log.ts';

/** Names to a client and the log which fields of its request were left out. */
export class IgnoredFields {
  private readonly log: Log;
  /** What the log has named. A program sends the same fields with each request. */
  private readonly logged = new Set<string>();

  constructor(log: Log) {
    this.log = log;
  }

  tell(res: ServerResponse, path: string, fields: readonly string[]): void {
    res.setHeader('X-Svc-Ignored', fields.map(toHeaderText).join(', '));
    this.note(path, fields);
  }

  /** The same without an answer over HTTP. */
  note(path: string, fields: readonly string[]): void {
    const fresh = fields.filter((field) => !this.logged.has(`${path} ${shapeOf(field)}`));
    if (fresh.length === 0) return;
    if (this.logged.size > LOGGED_MAX) this.logged.clear();
    for (const field of fresh) this.logged.add(`${path} ${shapeOf(field)}`);
    const names = fresh.map((field) => field.slice(0, NAME_LENGTH));
    this.log.info({ path, fields: names }, 'fields that svc does not know were left out');
  }
}

/** `messages.3.name` and `messages.4.name` are one mistake. */
function shapeOf(field: string): string {
  return field.replace(/\d+/g, 'n').slice(0, NAME_LENGTH);
}

/** A client chooses the names, and a header takes few characters. */
function toHeaderText(field: string): string {
  return field.slice(0, NAME_LENGTH).replace(/[^\w.[\]-]/g, (sign) => (sign === '…' ? '...' : '_'));
}

const NAME_LENGTH = 80;
const LOGGED_MAX = 1000;
