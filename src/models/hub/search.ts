import { isRecord, parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import { pullError } from '../failure.ts';
import type { FoundModel } from '../port.ts';
import { onHub } from './address.ts';
import type { HubClient } from './client.ts';
import { readText } from './listing.ts';
import { refusal } from './refusal.ts';

const FOUND_MAX = 20;

/** Asks the hub for repositories with GGUF files, the most downloaded first. Throws SvcError. */
export async function searchHub(
  hubClient: HubClient,
  hub: URL,
  words: string,
  limits: Limits,
  signal: AbortSignal,
): Promise<FoundModel[]> {
  const url = onHub(hub, 'api', 'models');
  const query = { search: words, filter: 'gguf', sort: 'downloads', limit: String(FOUND_MAX) };
  url.search = new URLSearchParams(query).toString();
  const headers = { accept: 'application/json' };
  const answer = await hubClient.get({ url, hub, signal, headers });
  if (answer.status !== 200) {
    await answer.body?.cancel();
    throw refusal(answer, 'a list of models', hub.host);
  }
  const entries = parseForeignJson(await readText(answer, limits.pull_list_bytes, signal));
  if (!Array.isArray(entries))
    throw pullError('pull_failed', `${hub.host} does not respond like a model hub.`);
  return entries.flatMap((entry: unknown) => readEntry(entry) ?? []).slice(0, FOUND_MAX);
}

/** Null: another form than expected. */
function readEntry(entry: unknown): FoundModel | null {
  if (!isRecord(entry) || typeof entry.id !== 'string') return null;
  if (!/^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/.test(entry.id)) return null;
  const { downloads, tags, gated } = entry;
  const licences = (Array.isArray(tags) ? tags : []).flatMap((tag: unknown) =>
    typeof tag === 'string' ? (/^license:([\w.+-]{1,64})$/.exec(tag)?.[1] ?? []) : [],
  );
  return {
    reference: `hf:${entry.id}`,
    downloads: Number.isSafeInteger(downloads) ? Number(downloads) : null,
    licence: licences[0] ?? null,
    gated: gated !== undefined && gated !== false,
  };
}
