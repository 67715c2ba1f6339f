import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answerScripted } from '../../clients/scripted-model.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Attack, Scale, Victim } from '../attack.ts';
import { BombSite } from '../bomb-site.ts';
import { TOOL } from '../bomb-tools.ts';
import { BOMB_NAMES, slugOf } from '../bombs.ts';

/** Every door through which foreign content comes in, and the same twelve bombs for each. */

const SLUGS = BOMB_NAMES.map(slugOf);
/** What a door may answer with at most is above these. */
const MIB: Record<Scale, number> = { short: 1, long: 12 };
/** A client leaves so long after the bomb was sent, and at the latest after `HANG_MS`. */
const PATIENCE_MS: Record<Scale, number> = { short: 1000, long: 20_000 };
const HANG_MS = 120_000;
const SERVER = fileURLToPath(new URL('../bomb-server.ts', import.meta.url));

const ADAPTERS: Readonly<Record<string, string>> = { 'embeddings-sdk': 'mistral' };
const PROVIDER_DOORS = [
  'models',
  'embeddings',
  'embeddings-sdk',
  'rerank',
  'images',
  'audio',
  'chat',
  'stream',
] as const;
const TOOL_DOORS = ['stdio', 'http', 'sse'].flatMap((way) => [`${way}-list`, `${way}-call`]);
const DOORS = [...PROVIDER_DOORS, ...TOOL_DOORS, 'hub', 'login'];

const site = await BombSite.start();
let good: Upstream;

export const attack: Attack = {
  summary: 'every source of foreign content answers with the same twelve bombs',
  env: () => ({ HF_ENDPOINT: site.origin }),
  async config(scale) {
    site.mib = MIB[scale];
    good = await Upstream.start(answerScripted);
    const at = (door: string, slug: string) => ({
      adapter: ADAPTERS[door] ?? 'openai-compatible',
      base_url: `${site.at(door, slug)}/v1`,
      kind: 'local',
      model: 'm',
    });
    const bad = PROVIDER_DOORS.flatMap((door) =>
      SLUGS.map((slug) => [`${door}-${slug}`, at(door, slug)]),
    );
    const scripted = { base_url: good.base_url, kind: 'local', model: 'scripted' };
    return { providers: { good: scripted, ...Object.fromEntries(bad) } };
  },
  memory_mib: { short: 300, long: 300 },
  async run(victim, scale) {
    const others = startOthers(victim);
    const problems: string[] = [];
    for (const door of DOORS) {
      writeServers(door, victim, scale);
      await Promise.all(
        // Downloads come one after the other.
        (door === 'hub' ? [SLUGS] : lanesOf(SLUGS)).map(async (lane) => {
          for (const slug of lane)
            await enter(door, slug, victim, scale).catch((error: Error) =>
              problems.push(`${door} ${slug}: ${error.message}`),
            );
        }),
      );
    }
    const unharmed = await others.stop();
    if (unharmed.failed.length > 0) problems.push(`other runs: ${unharmed.failed.join('; ')}`);
    if (unharmed.completed === 0) problems.push('no other run was completed');
    await waitFor('no request is open', () => site.open === 0, { within_ms: 60_000 }).catch(
      (error: Error) => problems.push(`${site.open} answers are still read: ${error.message}`),
    );
    for (const door of DOORS)
      for (const slug of door.startsWith('stdio') ? [] : SLUGS)
        if (!site.sent.has(`${door} ${slug}`)) problems.push(`${door} was never sent ${slug}`);
    if (problems.length > 0) throw new Error(problems.join('\n  '));
  },
  async clean() {
    site.stop();
    await good.stop();
  },
};

/** Those without an end work beside the others. */
function lanesOf(slugs: readonly string[]): string[][] {
  const lasting = slugs.filter((slug) => LASTING.includes(slug));
  return [slugs.filter((slug) => !LASTING.includes(slug)), ...lasting.map((slug) => [slug])];
}
const LASTING: readonly string[] = ['endless', 'slow'];

/** The tool servers of a door. */
function writeServers(door: string, { home }: Victim, scale: Scale): void {
  const entry = (slug: string) => {
    const svc = { policy: 'allow' };
    if (!door.startsWith('stdio')) return { url: site.at(door, slug), svc };
    const method = door.endsWith('-list') ? 'tools/list' : 'tools/call';
    return { command: process.execPath, args: [SERVER, slug, method, String(MIB[scale])], svc };
  };
  const mcpServers = Object.fromEntries(SLUGS.map((slug) => [`${door}-${slug}`, entry(slug)]));
  const file = join(dirname(home.paths.config), 'mcp.json');
  writeFileSync(file, JSON.stringify({ mcpServers }), { mode: 0o600 });
}

/** Runs that have nothing to do with it, one after the other. */
function startOthers({ life }: Victim) {
  let isOver = false;
  let completed = 0;
  const failed: string[] = [];
  const working = (async () => {
    while (!isOver) {
      const { id } = await life.ask((client) =>
        client.call('run.start', { prompt: 'hello', model: 'good/scripted' }),
      );
      const run = await waitFor('another run has ended', async () => {
        const found = await life.ask((client) => client.call('run.get', { id }));
        return found.ended_at !== null && found;
      });
      if (run.state === 'completed' && run.output === 'You said: hello') completed += 1;
      else failed.push(`${run.state} ${run.error?.code ?? ''} ${run.output}`);
      await new Promise((next) => setTimeout(next, 200));
    }
  })().catch((error: Error) => void failed.push(error.message));
  return {
    stop: async () => {
      isOver = true;
      await working;
      return { completed, failed };
    },
  };
}

/** Sends one bomb through one door. Throws for an answer that is not a failure by name. */
async function enter(door: string, slug: string, victim: Victim, scale: Scale): Promise<void> {
  const { signal: patience, over } = patienceOf(door, slug, scale);
  return enterWith(door, slug, victim, patience).finally(over);
}

function patienceOf(door: string, slug: string, scale: Scale) {
  const end = new AbortController();
  const hang = setTimeout(() => end.abort(), HANG_MS);
  let left = PATIENCE_MS[scale];
  // A server in a process does not say when.
  const isSent = () => door.startsWith('stdio') || site.sent.has(`${door} ${slug}`);
  const look = setInterval(() => {
    if (isSent()) left -= LOOK_MS;
    if (left <= 0) end.abort();
  }, LOOK_MS);
  const over = () => {
    clearTimeout(hang);
    clearInterval(look);
  };
  return { signal: end.signal, over };
}
const LOOK_MS = 100;

async function enterWith(door: string, slug: string, victim: Victim, patience: AbortSignal) {
  const name = `${door}-${slug}`;
  if (door === 'hub') return pull(slug, victim, patience);
  if (door === 'login') return login(name, victim, patience);
  if (door.endsWith('-list')) return post(victim, `/v1/mcp/${name}/test`, {}, patience);
  if (door.endsWith('-call')) return callTool(name, victim, patience);
  if (door === 'models') return post(victim, `/v1/providers/${name}/test`, {}, patience);
  const model = `${name}/m`;
  if (door === 'rerank')
    return post(victim, '/v1/rerank', { model, query: 'x', documents: ['a', 'b'] }, patience);
  if (door === 'images')
    return post(victim, '/v1/images/generations', { model, prompt: 'x' }, patience);
  if (door === 'audio') {
    const form = new FormData();
    form.set('model', model);
    form.set('file', new File(['RIFF'], 'a.wav'));
    return ask(victim, '/v1/audio/transcriptions', { body: form, signal: patience });
  }
  if (door.startsWith('embeddings'))
    return post(victim, '/v1/embeddings', { model, input: ['x', 'y'] }, patience);
  const messages = [{ role: 'user', content: 'x' }];
  return post(
    victim,
    '/v1/chat/completions',
    { model, messages, stream: door === 'stream' },
    patience,
  );
}

function post(victim: Victim, path: string, value: object, signal: AbortSignal): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  return ask(victim, path, { headers, body: JSON.stringify(value), signal });
}

/** Throws for an error that no code foresaw. A client that has left hears of none. */
async function ask(victim: Victim, path: string, { headers = {}, ...init }: RequestInit) {
  const sent = { method: 'POST', headers: { ...headers, ...victim.bearer }, ...init };
  const said = await fetch(`${victim.url}${path}`, sent)
    .then(async (response) => `${response.status} ${(await response.text()).slice(-2000)}`)
    .catch((error: Error) => error.name);
  refuseUnforeseen(said);
}

function refuseUnforeseen(said: string): void {
  if (/"internal"|unexpected error|Maximum call stack|RangeError/i.test(said))
    throw new Error(said.slice(0, 300));
}

async function callTool(server: string, { life }: Victim, patience: AbortSignal): Promise<void> {
  const { id } = await life.ask((client) =>
    client.call('run.start', {
      prompt: `Call ${server}__${TOOL} with {}`,
      model: 'good/scripted',
      tool_servers: [server],
    }),
  );
  const find = () => life.ask((client) => client.call('run.get', { id }));
  const ended = await waitFor('the run has ended', async () => {
    const found = await find();
    if (patience.aborted && found.ended_at === null)
      await life.ask((client) => client.call('run.cancel', { id })).catch(() => undefined);
    return found.ended_at !== null && found;
  });
  refuseUnforeseen(JSON.stringify(ended));
  await life.ask((client) => client.call('mcp.stop', { name: server })).catch(() => undefined);
}

function pull(slug: string, victim: Victim, patience: AbortSignal): Promise<void> {
  return post(victim, '/v1/models/pull', { reference: `hf:user/${slug}` }, patience);
}

async function login(name: string, { home }: Victim, patience: AbortSignal): Promise<void> {
  const words = ['mcp', 'login', name, '--no-browser'];
  const { child, ended } = home.spawn(words);
  patience.addEventListener('abort', () => child.kill('SIGKILL'));
  const { code, stderr } = await ended;
  if (code === 0) throw new Error('a login succeeded');
  refuseUnforeseen(stderr);
}
