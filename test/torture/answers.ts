import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { connect } from '../../src/transport/control/client.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import type { Home } from '../helpers/svc.ts';
import { CONNECT_MS, type Run } from './daemon.ts';

/** What a client of the local socket received of one run. */
export interface Followed {
  id: string;
  text: string;
  token_ids: number[];
  /** Types of its events except outputs, in order. */
  events: string[];
  /** The record at the end; null if the connection was lost. */
  record: Run | null;
  /** Code of the error that ended it early. */
  broken: string | null;
}

/**
 * Two random models: a quick one, and one slow enough to be killed during an answer. Neither has a
 * chat template: to compare it with known ones takes as long as the rest of a load.
 */
export function addModels(home: Home): void {
  const file = (name: string) => join(home.paths.models, `${name}.gguf`);
  const common = { context: 1024, template: null };
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  makeGguf(file('quick'), common);
  makeGguf(file('slow'), { ...common, width: 192, layers: 8, seed: 3 });
}

/** Starts a run, or follows one, until the run or the daemon ends. */
export async function followAnswer(
  home: Home,
  what: Record<string, unknown> | string,
  onTokens: (count: number) => void = () => {},
): Promise<Followed> {
  const heard: Followed = {
    id: typeof what === 'string' ? what : '',
    text: '',
    token_ids: [],
    events: [],
    record: null,
    broken: null,
  };
  const client = await connect(home.paths.socket, { timeout_ms: CONNECT_MS });
  try {
    const stream =
      typeof what === 'string'
        ? client.stream('run.follow', { id: what, from_seq: 0 })
        : client.stream('run.start', { ...what, stream: true });
    for await (const event of stream) {
      if ('run' in event) heard.id = event.run.id;
      else if ('type' in event) take(heard, event, onTokens);
    }
    heard.record = await stream.result;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    heard.broken = error.code;
  } finally {
    client.close();
  }
  return heard;
}

function take(
  heard: Followed,
  { type, data }: { type: string; data: Record<string, unknown> },
  onTokens: (count: number) => void,
): void {
  if (type !== 'run.output_appended') {
    heard.events.push(type);
    if (type === 'run.started' && data.resumes !== true)
      Object.assign(heard, { text: '', token_ids: [] });
    return;
  }
  heard.text += String(data.text);
  heard.token_ids.push(...(data.token_ids as number[]));
  onTokens(heard.token_ids.length);
}

/** Acts once, after this many tokens. */
export function once(cut: number, act: () => unknown): (count: number) => void {
  let done = false;
  return (count) => {
    if (count < cut || done) return;
    done = true;
    act();
  };
}

/** The whole answer, undisturbed, with one end. */
export function checkSame(heard: Followed, whole: Followed): void {
  assert.is(heard.record?.state, 'completed', heard.broken ?? JSON.stringify(heard.record?.error));
  assert.equal(heard.token_ids, whole.token_ids);
  assert.is(heard.text, whole.text);
  assert.is(heard.record?.output, whole.text);
  assert.equal(heard.record?.usage, whole.record?.usage);
  assert.is(heard.events.filter((event) => TERMINAL.test(event)).length, 1);
}

const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;
