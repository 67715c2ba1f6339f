import { asRecord, isRecord } from '../../json.ts';
import type { FoundModel } from '../../ports/models.ts';
import type { PullContext } from '../context.ts';
import { BYTES_PARAMETER } from '../memory-needs.ts';
import { onHub } from './address.ts';
import { modelsIn } from './choose.ts';
import { listFiles, listMeter, readList } from './listing.ts';
import { refusal } from './refusal.ts';

const FOUND_MAX = 20;

type SearchContext = Pick<PullContext, 'hubClient' | 'limits' | 'fit'>;

/**
 * Asks the hub for repositories with GGUF files, the most downloaded first. The words may be the
 * name of one repository: then for its models. Throws SvcError.
 */
export async function searchHub(
  context: SearchContext,
  hub: URL,
  words: string,
  signal: AbortSignal,
): Promise<FoundModel[]> {
  const { hubClient, limits, fit } = context;
  const [, repo] = /^(?:hf:)?(\S+\/\S+)$/.exec(words) ?? [];
  if (repo !== undefined && REPOSITORY.test(repo)) {
    const reference = { kind: 'hub', repo, revision: 'main', path: null, quant: null } as const;
    const files = modelsIn(await listFiles(hubClient, hub, reference, limits, signal));
    return files
      .slice(0, FILES_MAX)
      .map(({ path, size_bytes }) => ({
        reference: `hf:${repo}/${path}`,
        size_bytes,
        fit: fit(size_bytes),
        downloads: null,
        licence: null,
        gated: false,
      }));
  }
  const url = onHub(hub, 'api', 'models');
  const query = { search: words, filter: 'gguf', sort: 'downloads', limit: String(FOUND_MAX) };
  url.search = new URLSearchParams(query).toString();
  for (const field of FIELDS) url.searchParams.append('expand[]', field);
  const headers = { accept: 'application/json' };
  const answer = await hubClient.get({ url, hub, signal, headers });
  if (answer.status !== 200) {
    await answer.body?.cancel();
    throw refusal(answer, 'a list of models', hub.host);
  }
  const entries = await readList(answer, listMeter(limits), signal);
  return entries.flatMap((entry: unknown) => readEntry(entry, fit) ?? []).slice(0, FOUND_MAX);
}

const FILES_MAX = 100;
const REPOSITORY = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;
/** The fields that the hub sends of each. `gguf` has its number of parameters. */
const FIELDS = ['downloads', 'tags', 'gated', 'gguf'];

/** Null: another form than expected. */
function readEntry(entry: unknown, fit: PullContext['fit']): FoundModel | null {
  if (!isRecord(entry) || typeof entry.id !== 'string') return null;
  if (!REPOSITORY.test(entry.id)) return null;
  const { downloads, tags, gated } = entry;
  const { total } = asRecord(entry.gguf);
  const licences = (Array.isArray(tags) ? tags : []).flatMap((tag: unknown) =>
    typeof tag === 'string' ? (/^license:([\w.+-]{1,64})$/.exec(tag)?.[1] ?? []) : [],
  );
  return {
    reference: `hf:${entry.id}`,
    size_bytes: null,
    fit: Number.isSafeInteger(total) ? fit(Math.round(Number(total) * BYTES_PARAMETER)) : null,
    downloads: Number.isSafeInteger(downloads) ? Number(downloads) : null,
    licence: licences[0] ?? null,
    gated: gated !== undefined && gated !== false,
  };
}
