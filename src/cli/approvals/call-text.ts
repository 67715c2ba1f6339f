import type { ApprovalRecord } from '../../contract/approvals.ts';
import { oneLine } from '../../logs/plain.ts';
import { foreignJson, foreignText } from '../terminal/print/foreign.ts';

/** A call of a tool, for the person who decides about it. */
export interface CallText {
  /** A label, and its value behind it or below. */
  target: string;
  description: string;
  /** A write or an edit of a file says the same better. */
  changes: string;
  arguments: string;
}

export function callText(call: ApprovalRecord, columns?: number): CallText {
  // A daemon of an older version does not send all.
  const { target, description, changes } = call;
  const below = (label: string, text: string) => `${label}\n${text}`;
  return {
    target: target == null ? '' : below('server', foreignText(oneLine(target), columns)),
    description: description == null ? '' : below('says', foreignText(description, columns)),
    changes: changes == null ? '' : below('changes', foreignText(changes.trimEnd(), columns)),
    arguments: below('arguments', foreignJson(call.arguments, columns)),
  };
}

/** The parts that there are, one below the other. */
export function joinParts(...parts: readonly string[]): string {
  return parts.filter(Boolean).join('\n');
}

/** The first lines of a text, and how many more there are. */
export function firstLines(text: string, most: number): string {
  const lines = text.split('\n');
  if (lines.length <= most + 1) return text;
  const more = `… ${lines.length - most} more lines. To see them, answer: show`;
  return [...lines.slice(0, most), more].join('\n');
}

/** The commands that decide about a waiting call. */
export function commandsFor({ id, state }: Pick<ApprovalRecord, 'id' | 'state'>): string {
  const command = (name: string) => `svc approvals ${name} ${oneLine(id)}`;
  return state === 'lost'
    ? `${command('repeat')}, or ${command('skip')}, or ${command('result')} <text>`
    : `${command('allow')}, or ${command('deny')}`;
}
