import type { Limits } from '../../limits.ts';
import { pullError } from '../failure.ts';
import { modelNameOf } from '../file-name.ts';
import { projectorName } from '../gguf/companions.ts';
import { partPath, partsOf } from '../gguf/parts.ts';
import type { Task } from '../task.ts';
import { onHub } from './address.ts';
import { chooseFile, type HubFile } from './choose.ts';
import { type HubClient, wholeNumber } from './client.ts';
import { listFiles } from './listing.ts';
import type { HubReference } from './reference.ts';
import { refusal } from './refusal.ts';

/** A file of a download, before its first byte. */
export interface Source {
  url: URL;
  /** The hub that guards the file. Null: a plain URL. */
  hub: URL | null;
  /** Name in the models folder. */
  file: string;
  size_bytes: number | null;
  sha256: string | null;
  revision: string | null;
}

export interface Download {
  /** Name of the model in the models folder. Of a split model: without its parts. */
  file: string;
  /** The model, in one file or in several. */
  parts: readonly Source[];
  /** What belongs to it: its file for images. */
  others: readonly Source[];
  /** Of the whole model. */
  sha256: string | null;
  choices: string[];
}

/** Finds the files of a task. Throws SvcError. */
export async function findDownload(
  task: Task,
  hubClient: HubClient,
  limits: Limits,
  signal: AbortSignal,
): Promise<Download> {
  const { reference, sha256 } = task;
  if (reference.kind === 'hub') return findOnHub(reference, task, hubClient, limits, signal);
  const { url } = reference;
  const file = fileName(task, decodeName(url.pathname));
  const paths = partsOf(url.pathname);
  const parts: Source[] = [];
  for (const [index, path] of paths.entries()) {
    const source = {
      url: Object.assign(new URL(url), { pathname: path }),
      hub: null,
      file: partPath(file, index, paths.length),
      size_bytes: null,
      sha256: paths.length === 1 ? sha256 : null,
      revision: null,
    };
    parts.push(
      paths.length === 1
        ? source
        : { ...source, size_bytes: await sizeOnServer(source, hubClient, signal) },
    );
  }
  return { file, parts, others: [], sha256, choices: [] };
}

async function findOnHub(
  reference: HubReference,
  task: Task,
  hubClient: HubClient,
  limits: Limits,
  signal: AbortSignal,
): Promise<Download> {
  const { hub } = task;
  const { model, projector, others } = chooseFile(
    await listFiles(hubClient, hub, reference, limits, signal),
    reference,
  );
  const { parts } = model;
  const file = fileName(task, model.path);
  const [first = null] = parts.length === 1 ? parts.map(({ sha256 }) => sha256) : [];
  if (task.sha256 !== null && first !== null && task.sha256 !== first) {
    throw pullError(
      'pull_failed',
      `${hub.host} has another file than the requested one: its sha256 is ${first}.`,
    );
  }
  const sourceOf = ({ path, size_bytes, sha256 }: HubFile, name: string): Source => ({
    url: onHub(
      hub,
      ...reference.repo.split('/'),
      'resolve',
      reference.revision,
      ...path.split('/'),
    ),
    hub,
    file: name,
    size_bytes,
    sha256: parts.length === 1 && name === file ? (task.sha256 ?? sha256) : sha256,
    revision: reference.revision,
  });
  return {
    file,
    parts: parts.map((part, index) => sourceOf(part, partPath(file, index, parts.length))),
    others: projector === null ? [] : [sourceOf(projector, projectorName(file))],
    sha256: task.sha256 ?? first,
    choices: others,
  };
}

/** Asks for one byte of a file. Null: the server does not say its size. Throws SvcError. */
async function sizeOnServer(
  { url, hub, file }: Source,
  hubClient: HubClient,
  signal: AbortSignal,
): Promise<number | null> {
  const answer = await hubClient.get({ url, hub, signal, headers: { range: 'bytes=0-0' } });
  await answer.body?.cancel().catch(() => undefined);
  const { status, headers } = answer;
  if (status === 206) return wholeNumber(/\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1]);
  if (status === 200) return wholeNumber(headers.get('content-length'));
  throw refusal(answer, file, null);
}

function fileName({ name }: Task, path: string): string {
  const found = name ?? modelNameOf(path);
  if (found === null)
    throw pullError(
      'invalid_request',
      'The name of the file is not valid for a model. Give one with --name.',
    );
  return `${found}.gguf`;
}

function decodeName(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
