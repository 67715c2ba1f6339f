import { readdirSync, readFileSync } from 'node:fs';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { fromEventRow } from '../../../src/kernel/store/row.ts';
import type { Outcome } from './outcome.ts';

/**
 * Streams that each version has recorded: `<version>/<machine>.<what it shows>.jsonl`, and beside
 * it what users saw.
 */
export const RECORDED = 'test/fixtures/recorded';

export interface Recorded {
  version: string;
  machine: string;
  shows: string;
  bytes: number;
  events: StoredEvent[];
  outcome: Outcome;
}

export function readRecorded(): Recorded[] {
  return readdirSync(RECORDED).flatMap((version) =>
    readdirSync(`${RECORDED}/${version}`)
      .filter((file) => file.endsWith('.jsonl'))
      .map((file) => readOne(version, file)),
  );
}

function readOne(version: string, file: string): Recorded {
  const lines = readFileSync(`${RECORDED}/${version}/${file}`, 'utf8');
  const outcome = readFileSync(`${RECORDED}/${version}/${file.replace('.jsonl', '.json')}`, 'utf8');
  const [machine = '', shows = ''] = file.split('.');
  return {
    version,
    machine,
    shows,
    bytes: lines.length + outcome.length,
    events: parseLines(lines),
    outcome: JSON.parse(outcome) as Outcome,
  };
}

/** The events as the store reads them: in the present schema. */
export function parseLines(text: string): StoredEvent[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines
    .map((line) => JSON.parse(line) as StoredEvent)
    .map((event) => fromEventRow({ ...event, data: JSON.stringify(event.data) }));
}
