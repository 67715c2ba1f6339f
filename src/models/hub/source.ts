import type { Limits } from '../../limits.ts';
import { pullError } from '../failure.ts';
import { modelNameOf } from '../file-name.ts';
import type { Task } from '../task.ts';
import { onHub } from './address.ts';
import { chooseFile, split } from './choose.ts';
import type { HubClient } from './client.ts';
import { listFiles } from './listing.ts';
import type { HubReference } from './reference.ts';

/** The source of a download, before its first byte. */
export interface Source {
  url: URL;
  /** The hub that guards the file. Null: a plain URL. */
  hub: URL | null;
  /** Name in the models folder. */
  file: string;
  size_bytes: number | null;
  sha256: string | null;
  revision: string | null;
  choices: string[];
}

/** Finds the file of a task. Throws SvcError. */
export async function findSource(
  task: Task,
  hubClient: HubClient,
  limits: Limits,
  signal: AbortSignal,
): Promise<Source> {
  const { reference, sha256 } = task;
  if (reference.kind === 'hub') return onTheHub(reference, task, hubClient, limits, signal);
  const { url } = reference;
  const path = decoded(url.pathname);
  if (/-\d{5}-of-\d{5}\.gguf$/i.test(path)) throw split(url.pathname.split('/').at(-1) ?? '');
  return {
    url,
    hub: null,
    file: fileName(task, path),
    size_bytes: null,
    sha256,
    revision: null,
    choices: [],
  };
}

async function onTheHub(
  reference: HubReference,
  task: Task,
  hubClient: HubClient,
  limits: Limits,
  signal: AbortSignal,
): Promise<Source> {
  const { hub } = task;
  const { file, others } = chooseFile(
    await listFiles(hubClient, hub, reference, limits, signal),
    reference,
  );
  if (task.sha256 !== null && file.sha256 !== null && task.sha256 !== file.sha256) {
    throw pullError(
      'pull_failed',
      `${hub.host} has another file than the requested one: its sha256 is ${file.sha256}.`,
    );
  }
  return {
    url: onHub(
      hub,
      ...reference.repo.split('/'),
      'resolve',
      reference.revision,
      ...file.path.split('/'),
    ),
    hub,
    file: fileName(task, file.path),
    size_bytes: file.size_bytes,
    sha256: task.sha256 ?? file.sha256,
    revision: reference.revision,
    choices: others,
  };
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

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
