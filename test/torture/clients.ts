import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../src/transport/control/client.ts';
import type { Home } from '../helpers/svc.ts';
import { type Answer, ask, type Sent, stream } from './http.ts';
import type { Random } from './random.ts';
import { newSeen, note, type RunSeen } from './record.ts';

/**
 * Clients that ask while the daemon is killed, until they have their answers. Each records all
 * that it receives.
 */
export interface Clients {
  /** All runs of all clients. */
  readonly seen: RunSeen[];
  /** Violations found on the way. */
  readonly problems: string[];
  /** Starts no more work. Resolves when each client has its answer. */
  finish(): Promise<void>;
}

export interface ClientsOptions {
  home: Home;
  draw: Random;
  /** Concurrent clients. */
  count: number;
  /** Makes keys and prompts of this round unique. */
  name: string;
}

interface Client extends ClientsOptions {
  seen: RunSeen[];
  problems: string[];
}

export function startClients(options: ClientsOptions): Clients {
  const [seen, problems]: [RunSeen[], string[]] = [[], []];
  let over = false;
  const live = async (index: number) => {
    for (let turn = 0; !over; turn += 1) {
      try {
        await options.draw.pick(KINDS)({
          ...options,
          name: `${options.name}-${index}-${turn}`,
          seen,
          problems,
        });
      } catch (error) {
        problems.push(`client ${index}: ${String(error)}`);
      }
    }
  };
  const all = Array.from({ length: options.count }, (_, index) => live(index));
  return {
    seen,
    problems,
    finish: async () => {
      over = true;
      await Promise.all(all);
    },
  };
}

/** Requests with a known undisturbed answer. */
export const SAMPLED = Array.from({ length: 12 }, (_, index) => ({
  prompt: `Tell me about ${index}: é日🙂`,
  model: 'random',
  max_tokens: 40 + index * 45,
  temperature: [0, 0.8, 1.5][index % 3] ?? 0,
  seed: 1000 + index,
}));

type Body = Record<string, unknown> & { prompt: string };

function newBody({ draw, name }: Client): Body {
  if (draw.chance(0.5)) return { ...draw.pick(SAMPLED) };
  const trouble = draw.chance(0.1) ? draw.pick([' fails', ' breaks']) : '';
  return {
    prompt: `fake ${name} ${draw.whole(0, 40)} ${draw.pick([0, 1, 5, 20])}${trouble}`,
    provider: 'fake',
    ...(draw.chance(0.2) ? { recovery: 'restart' } : {}),
  };
}

function begin(client: Client, body: Body): RunSeen {
  const {
    prompt,
    seed = null,
    temperature = null,
  } = body as { prompt: string; seed?: number; temperature?: number };
  const seen = newSeen({ prompt, seed, temperature, key: `key-${client.name}` });
  client.seen.push(seen);
  return seen;
}

/** Follows over HTTP, from Last-Event-ID after each break. Now and then it disconnects itself. */
async function followOverHttp(client: Client): Promise<void> {
  const body = newBody(client);
  const seen = begin(client, body);
  const { home, draw } = client;
  for (let ended = false; !ended; ) {
    const last = seen.events.at(-1)?.seq;
    const [id] = seen.ids;
    const asked =
      id === undefined
        ? post(seen, body)
        : { headers: last === undefined ? {} : { 'last-event-id': String(last) } };
    const following = await stream(
      home,
      id === undefined ? '/v1/runs' : `/v1/runs/${id}/events`,
      asked,
    ).catch(() => null);
    if (following === null || following.status >= 429) {
      await delay(30);
      continue;
    }
    if (following.status !== 200)
      throw new Error(`the stream of ${seen.prompt} was answered with ${following.status}`);
    seen.ids.add(String(following.headers['x-svc-run-id']));
    const patience = draw.chance(0.1) ? draw.whole(1, 20) : Number.POSITIVE_INFINITY;
    let taken = 0;
    for await (const event of following.events) {
      ended = take(client, seen, event);
      taken += 1;
      if (ended || taken >= patience) break;
    }
    following.leave();
  }
}

function take({ problems }: Client, seen: RunSeen, { id, event, data }: Sent): boolean {
  if (id === null) return false;
  const last = seen.events.at(-1);
  if (last !== undefined && (id <= last.seq || data.version !== last.version + 1))
    problems.push(`${seen.prompt}: after the event ${last.seq} came ${id}`);
  note(seen, { seq: id, version: data.version, type: event, data: data.data });
  return TERMINAL.test(event);
}

/** Starts over the local socket, again if the answer is lost, and follows there. */
async function followOverSocket(client: Client): Promise<void> {
  const body = newBody(client);
  const seen = begin(client, body);
  for (let ended = false; !ended; ) {
    const socket = await connect(client.home.paths.socket).catch(() => null);
    if (socket === null) {
      await delay(30);
      continue;
    }
    const [id] = seen.ids;
    const from_seq = (seen.events.at(-1)?.seq ?? -1) + 1;
    const events =
      id === undefined
        ? socket.stream('run.start', { ...body, idempotency_key: seen.key, stream: true })
        : socket.stream('run.follow', { id, from_seq });
    try {
      for await (const event of events) {
        if ('run' in event) seen.ids.add(event.run.id);
        else if ('type' in event)
          ended = take(client, seen, { id: event.seq, event: event.type, data: event });
      }
      const run = await events.result;
      ended = run.ended_at !== null;
    } catch {
      await delay(20);
    } finally {
      socket.close();
    }
  }
}

/** Sends many requests with one key at once, until one is answered. */
async function storm(client: Client): Promise<void> {
  const body = newBody(client);
  const seen = begin(client, body);
  while (seen.ids.size === 0) {
    const answers = await Promise.all(
      Array.from({ length: 4 }, () =>
        ask(client.home, '/v1/runs', post(seen, body)).catch(() => null),
      ),
    );
    for (const answer of answers) {
      if (answer?.status === 202) seen.ids.add(answer.json.id);
      else if (answer !== null && answer.status < 429)
        client.problems.push(
          `a request with the key ${seen.key} was answered with ${answer.status} ${answer.text}`,
        );
    }
    if (seen.ids.size === 0) await delay(30);
  }
  await settled(client, seen);
}

/** Starts and cancels soon after, until the cancel is answered. */
async function cancel(client: Client): Promise<void> {
  const body = newBody(client);
  const seen = begin(client, body);
  const started = await until(() => ask(client.home, '/v1/runs', post(seen, body)));
  seen.ids.add(started.json.id);
  await delay(client.draw.whole(0, 200));
  const answer = await until(() =>
    ask(client.home, `/v1/runs/${started.json.id}/cancel`, { method: 'POST' }),
  );
  seen.cancelled = answer.json.state;
}

/** Runs the command in another process. It reconnects itself, and may give up after many kills. */
async function command(client: Client): Promise<void> {
  if (commands >= COMMANDS_MAX || client.draw.chance(0.5)) return followOverHttp(client);
  commands += 1;
  try {
    const { prompt, max_tokens, temperature, seed } = client.draw.pick(SAMPLED);
    const seen = begin(client, { prompt, seed, temperature });
    const sampling = [
      '--max-tokens',
      String(max_tokens),
      '--temperature',
      String(temperature),
      '--seed',
      String(seed),
      '--model',
      'random',
    ];
    const { code, stdout } = await client.home.svc([
      'run',
      prompt,
      ...sampling,
      '--idempotency-key',
      seen.key ?? '',
      '--no-start',
    ]);
    seen.printed = { text: stdout, code };
  } finally {
    commands -= 1;
  }
}

let commands = 0;
const COMMANDS_MAX = 1;
const KINDS = [
  followOverHttp,
  followOverHttp,
  followOverHttp,
  followOverSocket,
  followOverSocket,
  storm,
  cancel,
  command,
];
const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;

function post(
  { key }: RunSeen,
  body: Body,
): { method: string; body: Body; headers: Record<string, string> } {
  return { method: 'POST', body, headers: key === null ? {} : { 'idempotency-key': key } };
}

async function settled({ home }: Client, seen: RunSeen): Promise<void> {
  const [id = ''] = seen.ids;
  for (let ended: string | null = null; ended === null; ) {
    ended = (await until(() => ask(home, `/v1/runs/${id}`))).json.ended_at;
    if (ended === null) await delay(50);
  }
}

/** Asks until a daemon accepts. */
async function until(request: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await request().catch(() => null);
    if (answer !== null && answer.status < 300) return answer;
    if (answer !== null && answer.status < 429)
      throw new Error(`answered with ${answer.status} ${answer.text}`);
    await delay(30);
  }
}
