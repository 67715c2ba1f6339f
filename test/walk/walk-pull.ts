import { existsSync, mkdirSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { encodeGguf } from '../fixtures/models/gguf-bytes.ts';
import { Hub } from '../helpers/hub.ts';
import { makeModel } from '../helpers/pulls.ts';
import type { Started } from '../helpers/svc.ts';
import type { Walked } from './edges.ts';
import { Harness, type Settings, waitLong } from './harness.ts';
import { closeLater } from './opened.ts';

/** Downloads of models from a hub that the test scripts. */

const SMALL = makeModel(64);
const SETTINGS = {
  LIMIT_PULL_PROGRESS_MS: 10,
  LIMIT_PULL_IDLE_MS: 60_000,
  LIMIT_PULL_SPARE_BYTES: 0,
};

/** Large enough for its hash to take a while: 96 MiB, made when it is needed, once. */
function largeModel(): Buffer {
  large ??= encodeGguf(
    [['general.architecture', 'string', 'llama']],
    [{ name: 'token_embd.weight', shape: [256, 98_304], data: new Float32Array(25_165_824) }],
  );
  return large;
}

let large: Buffer | null = null;

interface HubHarness {
  harness: Harness;
  hub: Hub;
  pull(file: string, ...flags: string[]): Promise<number | null>;
  begin(file: string, ...flags: string[]): Started;
  leave(): Promise<Walked>;
}

async function build(
  settings: Settings = {},
  files: Record<string, Buffer> = {},
): Promise<HubHarness> {
  const hub = await Hub.start({ 'small.gguf': SMALL, ...files });
  const stopHub = closeLater(() => hub.stop());
  const harness = await Harness.build({ ...SETTINGS, ...settings });
  await harness.start('ready');
  const begin = (file: string, ...flags: string[]) =>
    harness.home.spawn(['model', 'pull', `${hub.url}/${file}`, ...flags]);
  return {
    harness,
    hub,
    begin,
    pull: async (file, ...flags) => (await begin(file, ...flags).ended).code,
    leave: async () => {
      await harness.kill();
      const walked = await harness.leave();
      await stopHub();
      return walked;
    },
  };
}

/** Fetched, fetched after trouble, and failed in every way. */
async function fetched(): Promise<Walked> {
  const { hub, pull, leave } = await build({}, { 'large.gguf': largeModel() });
  hub.next.push({ status: 503 });
  assert.is(await pull('small.gguf'), 0);
  hub.next.push({ cutAfter: 20_000_000 });
  assert.is(await pull('large.gguf'), 0);
  assert.is(await pull('absent.gguf'), 7);
  assert.is.not(await pull('small.gguf', '--name', 'other', '--sha256', '0'.repeat(64)), 0);
  return leave();
}

/** Something else takes the place of the model while it is fetched. */
async function placeTaken(): Promise<Walked> {
  const { harness, leave } = await build();
  const answers: ServerResponse[] = [];
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-length': SMALL.length }).write(SMALL.subarray(0, 30_000));
    answers.push(response);
  });
  const stopServer = closeLater(() => server.close().closeAllConnections());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { ended } = harness.home.spawn([
    'model',
    'pull',
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/late.gguf`,
  ]);
  await waitLong('it is being fetched', () =>
    existsSync(join(harness.home.paths.models, 'late.gguf.partial')),
  );
  mkdirSync(join(harness.home.paths.models, 'late.gguf'));
  for (const answer of answers) answer.end(SMALL.subarray(30_000));
  assert.is.not((await ended).code, 0);
  await stopServer();
  return leave();
}

/** The last attempt is cut in the middle. */
async function givenUp(): Promise<Walked> {
  const { hub, pull, leave } = await build({ LIMIT_PULL_FAILURES: 1 });
  hub.next.push({ cutAfter: 20_000 });
  assert.is.not(await pull('small.gguf'), 0);
  return leave();
}

/** Cancelled in every state that lasts. */
async function cancelled(): Promise<Walked> {
  const { hub, begin, leave } = await build({}, { 'large.gguf': largeModel() });
  hub.next.push({ silent: true });
  const resolving = begin('small.gguf');
  await waitLong('the hub is asked', () => hub.downloads.length === 1);
  await interrupt(resolving);
  hub.next.push({ hangAfter: 20_000 });
  const downloading = begin('small.gguf');
  await waitLong('some of it was sent', () => hub.downloads.at(-1)?.sent === 20_000);
  await waitLong('the command shows it', () => /small/.test(downloading.stderr()));
  await interrupt(downloading);
  hub.next.push({ status: 503, headers: { 'retry-after': '25' } });
  const waiting = begin('small.gguf');
  await waitLong('the command says that it waits', () =>
    /again|retry|wait/i.test(waiting.stderr()),
  );
  await interrupt(waiting);
  // The file is hashed in a part of a second, and may be done before the cancel comes.
  for (let turn = 0, code: number | null = 0; code === 0; turn += 1) {
    assert.ok(turn < 10, 'the cancel came too late each time');
    const hashing = begin('large.gguf', '--name', `large-${turn}`);
    await waitLong('the command says that it verifies', () => /verif/i.test(hashing.stderr()), 1);
    hashing.child.kill('SIGINT');
    code = (await hashing.ended).code;
  }
  return leave();
}

async function interrupt({ child, ended }: Started): Promise<void> {
  child.kill('SIGINT');
  assert.is((await ended).code, 130);
}

export const pullScenarios = [fetched, placeTaken, givenUp, cancelled];
