import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import type { AnyMachineSnapshot } from 'xstate';
import { init, statePath, step } from '../../../../machines/step.ts';
import { upcast } from '../../../../machines/upcast.ts';
import { machineOf, unknownKind } from '../../../kernel/registry.ts';
import { type StoredEvent, toEvent } from '../../../kernel/store/port.ts';
import { writeAll } from '../../terminal/print/output.ts';

/** One stream as a build folds it: its state, and a digest of each field of its context. */
export interface Folded {
  stream: string;
  seq: number;
  state: string;
  fields: Record<string, string>;
  /** The first event that the machine did not accept. */
  refused: { seq: number; type: string; state: string } | null;
}

/**
 * Folds a log that comes as lines on stdin, with the machines of this build. Another build compares
 * what it prints with its own: a line for each stream when its machine ends, and the rest in the
 * end. Only machines that have not ended are in memory.
 */
export async function printStates(): Promise<number> {
  const open = new Map<string, { snapshot: AnyMachineSnapshot; folded: Folded }>();
  const end = (stream: string) => {
    const found = open.get(stream);
    if (found === undefined) return;
    open.delete(stream);
    const { snapshot, folded } = found;
    const state = statePath(snapshot);
    const fields = digests(snapshot.context as object);
    writeAll(1, `${JSON.stringify({ ...folded, state, fields })}\n`);
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const stored = JSON.parse(line) as StoredEvent;
    const { stream, version, seq, type, schema } = stored;
    const event = toEvent({ ...stored, data: upcast(schema, type, stored.data) });
    const machine = machineOf(stream);
    const before = open.get(stream);
    // The beginning may have been removed from the history.
    if (before === undefined && version !== 1) continue;
    if (before !== undefined && !machine.events.includes(type)) throw unknownKind(type);
    const { snapshot } =
      before === undefined ? init(machine, event) : step(machine, before.snapshot, event);
    const folded = before?.folded ?? { stream, seq, state: '', fields: {}, refused: null };
    folded.seq = seq;
    if (snapshot === before?.snapshot) folded.refused ??= { seq, type, state: statePath(snapshot) };
    open.set(stream, { snapshot, folded });
    if (snapshot.status !== 'active') end(stream);
  }
  for (const stream of [...open.keys()]) end(stream);
  return 0;
}

function digests(context: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(context).flatMap(([name, value]) => {
      const text = JSON.stringify(value);
      if (text === undefined) return [];
      return [[name, createHash('sha256').update(text).digest('base64url').slice(0, 16)]];
    }),
  );
}
