import { get } from 'node:http';
import { timeoutSignal } from '../async/timers.ts';
import { type KnownProvider, knownProviders } from '../config/providers/known-providers.ts';
import { parseForeignJson } from '../json.ts';
import { jsonBudgets } from '../limits.ts';

/**
 * Finds the model servers of this machine, at the ports that they usually have.
 *
 * 1. Only addresses of the loopback interface are queried, without a key, a proxy or a redirect.
 * 2. Two servers can share a port, so a server is named only by an answer that no other server
 *    gives.
 */

export interface FoundServer {
  /** Its row of the known providers. Null: it speaks OpenAI's API, but does not identify itself. */
  like: string | null;
  name: string;
  base_url: string;
  /** Null: it wants a key. */
  models: string[] | null;
}

/** The servers on this machine, at each of their usual addresses. */
export const SERVERS = Object.entries<KnownProvider>(knownProviders).flatMap(([id, row]) =>
  row.kind === 'local' && row.base_url !== null
    ? [row.base_url, ...(row.also_at ?? [])].map((base_url) => ({ id, name: row.name, base_url }))
    : [],
);

/** What only this server answers: a path, and whether the answer is its own. */
const SIGNS: Readonly<Record<string, readonly [path: string, isIt: (body: Answer) => boolean]>> = {
  ollama: ['/', ({ text }) => /^Ollama is running/.test(text)],
  lmstudio: ['/lmstudio-greeting', ({ json }) => json.lmstudio === true],
  'llama-server': ['/props', ({ json }) => typeof json.default_generation_settings === 'object'],
  vllm: ['/v1/models', ({ json }) => owners(json).includes('vllm')],
  localai: ['/.well-known/localai.json', ({ json }) => typeof json.endpoints === 'object'],
  'docker-model-runner': ['/engines/v1/models', ({ json }) => Array.isArray(json.data)],
  jan: ['/v1/models', ({ status, port }) => port === '1337' && (status === 200 || status === 401)],
};

/** `except`: origins to leave out, such as those of svc itself. */
export async function discoverServers(
  servers: readonly { id: string; name: string; base_url: string }[] = SERVERS,
  except: readonly string[] = [],
): Promise<FoundServer[]> {
  const origins = Map.groupBy(servers, ({ base_url }) => new URL(base_url).origin);
  const found = await Promise.all(
    [...origins]
      .filter(([origin]) => !except.includes(origin))
      .map(([origin, rows]) => lookAt(origin, rows)),
  );
  return found.filter((server) => server !== null);
}

async function lookAt(
  origin: string,
  rows: readonly { id: string; name: string; base_url: string }[],
): Promise<FoundServer | null> {
  for (const { id, name, base_url } of rows) {
    const [path, isIt] = SIGNS[id] ?? ['/', () => false];
    const answer = await ask(`${origin}${path}`);
    if (answer === 'absent') return null;
    if (answer === null || !isIt(answer)) continue;
    return { like: id, name, base_url, models: modelsOf(await ask(`${base_url}/models`)) };
  }
  const base_url = `${origin}/v1`;
  const list = await ask(`${base_url}/models`);
  if (list === null || list === 'absent' || !Array.isArray(list.json.data)) return null;
  return { like: null, name: 'a server with the API of OpenAI', base_url, models: modelsOf(list) };
}

interface Answer {
  status: number;
  port: string;
  text: string;
  /** Empty if the text is not a JSON object. */
  json: Record<string, unknown>;
}

const ANSWER_MS = 2_000;
const ANSWER_BYTES = 1_048_576;

/** Null: no usable answer. `absent`: nothing listens there. */
function ask(url: string): Promise<Answer | 'absent' | null> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, signal: timeoutSignal(ANSWER_MS) }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('error', () => resolve(null));
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > ANSWER_BYTES) request.destroy();
      });
      response.on('close', () => {
        if (!response.complete) return resolve(null);
        const text = Buffer.concat(chunks).toString('utf8');
        const { port } = new URL(url);
        resolve({ status: response.statusCode ?? 0, port, text, json: objectIn(text) });
      });
    });
    request.on('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'ECONNREFUSED' ? 'absent' : null),
    );
  });
}

function objectIn(text: string): Record<string, unknown> {
  const value = parseForeignJson(text, jsonBudgets.list);
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function entries({ data }: Record<string, unknown>): Record<string, unknown>[] {
  return Array.isArray(data) ? data.filter((entry) => typeof entry === 'object' && entry) : [];
}

function owners(json: Record<string, unknown>): unknown[] {
  return entries(json).map(({ owned_by }) => owned_by);
}

const MODELS_SHOWN = 1_000;

function modelsOf(answer: Answer | 'absent' | null): string[] | null {
  if (answer === null || answer === 'absent' || answer.status !== 200) return null;
  return entries(answer.json)
    .flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
    .slice(0, MODELS_SHOWN);
}
