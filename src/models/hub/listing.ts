import { asRecord, isRecord, JsonExcess, JsonMeter, readJsonBody } from '../../json.ts';
import { jsonBudgets, type Limits } from '../../limits.ts';
import { connectionError, pullError } from '../failure.ts';
import { onHub } from './address.ts';
import type { HubFile } from './choose.ts';
import type { Answer, HubClient } from './client.ts';
import type { HubReference } from './reference.ts';
import { refusal } from './refusal.ts';

/** Lists the files of a repository, page by page. Throws SvcError. */
export async function listFiles(
  hubClient: HubClient,
  hub: URL,
  { repo, revision }: HubReference,
  limits: Limits,
  signal: AbortSignal,
): Promise<HubFile[]> {
  const [user = '', name = ''] = repo.split('/');
  let page: URL | null = onHub(hub, 'api', 'models', user, name, 'tree', revision);
  page.search = '?recursive=true';
  const files: HubFile[] = [];
  const meter = listMeter(limits);
  const { pull_list_pages: pagesMax } = limits;
  for (let pages = 1; page !== null; pages += 1) {
    if (pages > pagesMax)
      throw pullError(
        'pull_failed',
        `The list that ${hub.host} sends has more than ${pagesMax} pages.`,
      );
    const answer: Answer = await hubClient.get({
      url: page,
      hub,
      signal,
      headers: { accept: 'application/json' },
    });
    if (answer.status !== 200) {
      await answer.body?.cancel();
      throw refusal(answer, revision === 'main' ? repo : `${repo} at ${revision}`, hub.host);
    }
    for (const entry of await readList(answer, meter, signal)) {
      const file = readEntry(entry);
      if (file !== null) files.push(file);
    }
    page = nextPage(answer.headers.get('link'), page, hub);
  }
  return files;
}

/** Measures a list, all its pages together. */
export function listMeter({ pull_list_bytes: bytes }: Pick<Limits, 'pull_list_bytes'>): JsonMeter {
  return new JsonMeter({ ...jsonBudgets.list, bytes });
}

/** Reads the list of an answer. Throws SvcError. */
export async function readList(
  { body, host }: Answer,
  meter: JsonMeter,
  signal: AbortSignal,
): Promise<unknown[]> {
  const list = await readJsonBody(body, meter).catch((thrown: unknown) => {
    if (thrown instanceof JsonExcess)
      throw pullError('pull_failed', `The list that ${host} sends has ${thrown.message}.`);
    throw signal.aborted ? thrown : connectionError(thrown, host);
  });
  if (Array.isArray(list)) return list;
  throw pullError('pull_failed', `${host} does not respond like a model hub.`);
}

/** A longer path is not a real file, and does not fit a message. */
const PATH_MAX = 512;

/** Null: a folder, or an unknown form. */
function readEntry(entry: unknown): HubFile | null {
  if (
    !isRecord(entry) ||
    entry.type !== 'file' ||
    typeof entry.path !== 'string' ||
    entry.path.length > PATH_MAX
  )
    return null;
  const lfs = asRecord(entry.lfs);
  const size = lfs.size ?? entry.size;
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return null;
  return {
    path: entry.path,
    size_bytes: size,
    sha256: typeof lfs.oid === 'string' && /^[0-9a-f]{64}$/.test(lfs.oid) ? lfs.oid : null,
  };
}

/** Pages stay on the hub: a mirror may link to the hub that it mirrors. */
function nextPage(link: string | null, from: URL, hub: URL): URL | null {
  const next = /<([^<>]+)>\s*;\s*rel="?next"?/.exec(link ?? '')?.[1];
  if (next === undefined || !URL.canParse(next, from.href)) return null;
  const { pathname, search } = new URL(next, from);
  return new URL(pathname + search, hub.origin);
}
