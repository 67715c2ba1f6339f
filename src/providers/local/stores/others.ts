import { existsSync } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import { platform } from '../../../home/platform.ts';
import { asRecord } from '../../../json.ts';
import { firstPartOf, isCompanion, partsOf, withoutPart } from '../../../models/index.ts';
import { isModelFile } from '../model-files.ts';
import { type ModelDefaults, readDefaults } from './defaults.ts';

/** A model file that another program put on this disk. */
export interface OtherModel {
  /** Such as `ollama/llama3.2:3b`. */
  name: string;
  /** Without links. */
  path: string;
  source: ModelSource;
  /** Null: unknown. */
  digest: string | null;
  /** Why it cannot be used, as the other program has it. Absent: nothing is known against it. */
  problem?: string;
  /** Parts of the model that svc does not use, such as `template`. */
  unused?: readonly string[];
  defaults?: ModelDefaults;
}

export type ModelSource = 'ollama' | 'lm-studio' | 'huggingface' | 'folder';

export interface OtherOptions {
  env: NodeJS.ProcessEnv;
  /** Null: the usual folders of the programs. */
  folders: readonly string[] | null;
  filesMax: number;
}

interface Root {
  folder: string;
  source: ModelSource;
  /** A folder that the user named may belong to another user. */
  named: boolean;
}

/**
 * The model files of Ollama, LM Studio, the cache of Hugging Face and the folders of the user.
 *
 * 1. They are only read. A file is listed if it lies in its folder, also after all links.
 * 2. A usual folder is read only if it belongs to this user.
 * 3. The number of files, the depth and the number of read entries are bounded.
 * 4. A list is at most `FRESH_MS` old.
 */
export class OtherModels {
  private readonly options: OtherOptions;
  private list: Promise<OtherModel[]> | null = null;
  private since = 0;

  constructor(options: OtherOptions) {
    this.options = options;
  }

  find(): Promise<OtherModel[]> {
    const now = performance.now();
    if (this.list === null || now - this.since > FRESH_MS) {
      this.since = now;
      this.list = this.read();
    }
    return this.list;
  }

  private async read(): Promise<OtherModel[]> {
    const found = new Map<string, OtherModel>();
    for (const root of rootsOf(this.options)) {
      const folder = await ownFolder(root);
      if (folder === null) continue;
      const budget = { entries: ENTRIES_MAX };
      for (const model of await read(root.source, folder, budget)) {
        if (found.size >= this.options.filesMax) return [...found.values()];
        const path = await insideOf(folder, model.path);
        if (path !== null && !found.has(model.name)) found.set(model.name, { ...model, path });
      }
    }
    return [...found.values()];
  }
}

const FRESH_MS = 5_000;
const ENTRIES_MAX = 20_000;
const DEPTH_MAX = 6;
const MANIFEST_BYTES_MAX = 65_536;

interface Budget {
  entries: number;
}

function rootsOf({ env, folders }: OtherOptions): Root[] {
  if (folders !== null) return folders.map((folder) => ({ folder, source: 'folder', named: true }));
  const home = platform.userFolder(env);
  const cache = env.XDG_CACHE_HOME || join(home, '.cache');
  const hub = env.HF_HUB_CACHE || join(env.HF_HOME || join(cache, 'huggingface'), 'hub');
  const ollama = env.OLLAMA_MODELS;
  return [
    { folder: ollama || join(home, '.ollama', 'models'), source: 'ollama', named: Boolean(ollama) },
    { folder: join(home, '.lmstudio', 'models'), source: 'lm-studio', named: false },
    { folder: join(home, '.cache', 'lm-studio', 'models'), source: 'lm-studio', named: false },
    { folder: hub, source: 'huggingface', named: Boolean(env.HF_HUB_CACHE || env.HF_HOME) },
  ];
}

/** The folder without links. Null: it is not there, or belongs to another user. */
async function ownFolder({ folder, named }: Root): Promise<string | null> {
  try {
    const real = await realpath(folder);
    const { uid } = await stat(real);
    return named || platform.isOwn(uid) ? real : null;
  } catch {
    return null;
  }
}

/**
 * The file without links. A link to a part of a split model stays: only its name leads to the other
 * parts. Null: it is not a file in the folder.
 */
async function insideOf(folder: string, path: string): Promise<string | null> {
  const parts = partsOf(path);
  if (parts.length === 1) return realFileIn(folder, path);
  const present = parts.filter(existsSync);
  const real = await Promise.all(present.map((part) => realFileIn(folder, part)));
  return real.includes(null) ? null : path;
}

async function realFileIn(folder: string, path: string): Promise<string | null> {
  try {
    const real = await realpath(path);
    const inside = relative(folder, real);
    return !inside.startsWith('..') && (await stat(real)).isFile() ? real : null;
  } catch {
    return null;
  }
}

async function read(source: ModelSource, folder: string, budget: Budget): Promise<OtherModel[]> {
  if (source === 'folder') {
    const names = await namesIn(folder, budget);
    if (names.includes('blobs')) return readOllama(folder, budget);
    if (names.some((name) => name.startsWith('models--'))) return readHub(folder, budget);
  }
  if (source === 'ollama') return readOllama(folder, budget);
  if (source === 'huggingface') return readHub(folder, budget);
  const prefix = source === 'lm-studio' ? 'lm-studio' : basename(folder);
  return (await modelsIn(folder, budget)).map((path) => ({
    name: `${prefix}/${nameOf(folder, path)}`,
    path,
    source,
    digest: null,
  }));
}

/** `manifests/<registry>/<namespace>/<model>/<tag>` names a file `blobs/sha256-<hex>`. */
async function readOllama(folder: string, budget: Budget): Promise<OtherModel[]> {
  const found: OtherModel[] = [];
  for (const manifests of ['manifests', 'manifests-v2']) {
    for (const path of await filesIn(join(folder, manifests), budget)) {
      const parts = relative(join(folder, manifests), path).split(sep);
      if (parts.some((part) => part.startsWith('.'))) continue;
      const { digest, ...rest } = await manifestAt(path, folder);
      const tag = parts.pop();
      const [registry = '', namespace = ''] = parts;
      const usual = /^(registry\.)?ollama\.(ai|com)$/.test(registry);
      const short = usual ? (namespace === 'library' ? parts.slice(2) : parts.slice(1)) : parts;
      found.push({
        name: `ollama/${short.join('/')}:${tag}`,
        path: digest === null ? path : blobIn(folder, digest),
        source: 'ollama',
        digest,
        ...rest,
      });
    }
  }
  return found;
}

type Manifest = Pick<OtherModel, 'digest' | 'problem' | 'unused' | 'defaults'>;

/** The weights that a manifest names, and the layers around them. */
async function manifestAt(path: string, folder: string): Promise<Manifest> {
  const damaged = (why: string): Manifest => ({
    digest: null,
    problem: `its manifest of Ollama ${why}`,
  });
  try {
    if ((await stat(path)).size > MANIFEST_BYTES_MAX) return damaged('is too large');
    const { layers } = asRecord(JSON.parse(await readFile(path, 'utf8')));
    const digests = new Map(
      (Array.isArray(layers) ? layers : []).map((layer) => {
        const { mediaType, digest } = asRecord(layer);
        return [String(mediaType).replace('application/vnd.ollama.image.', ''), digest] as const;
      }),
    );
    const digest = digests.get('model');
    if (typeof digest !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(digest))
      return damaged('names no weights');
    const layer = (kind: string) => layerIn(folder, digests.get(kind));
    const read = readDefaults(await layer('system'), await layer('params'));
    const unused = [...UNUSED.filter((kind) => digests.has(kind)), ...read.unused];
    return {
      digest,
      ...(digests.has('adapter') ? { problem: ADAPTER } : {}),
      ...(unused.length === 0 ? {} : { unused }),
      ...(read.defaults === null ? {} : { defaults: read.defaults }),
    };
  } catch {
    return damaged('is not JSON');
  }
}

/** Without its adapter it would be the model that the adapter was made for. */
const ADAPTER = 'it has an adapter, which the engine does not use';
/** Layers with Ollama's prompts, which are templates of Go, and a layer that reads images. */
const UNUSED = ['template', 'messages', 'projector'];

function blobIn(folder: string, digest: string): string {
  return join(folder, 'blobs', digest.replace(':', '-'));
}

/** The text of a small layer. Undefined: the layer is absent. Null: it cannot be read. */
async function layerIn(folder: string, digest: unknown): Promise<string | null | undefined> {
  if (digest === undefined) return undefined;
  if (typeof digest !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(digest)) return null;
  const path = await realFileIn(folder, blobIn(folder, digest));
  if (path === null || (await stat(path)).size > MANIFEST_BYTES_MAX) return null;
  return readFile(path, 'utf8').catch(() => null);
}

/** `models--user--repo/snapshots/<commit>/<file>` is a link to a file in `blobs`. */
async function readHub(folder: string, budget: Budget): Promise<OtherModel[]> {
  const found: OtherModel[] = [];
  for (const entry of await namesIn(folder, budget)) {
    const [, user, repo] = /^models--([\w.-]+?)--([\w.-]+)$/.exec(entry) ?? [];
    if (user === undefined || repo === undefined) continue;
    const snapshots = join(folder, entry, 'snapshots');
    const main = await readFile(join(folder, entry, 'refs', 'main'), 'utf8').catch(() => '');
    const commits = await namesIn(snapshots, budget);
    commits.sort((a, b) => Number(b === main.trim()) - Number(a === main.trim()));
    for (const commit of commits)
      for (const path of await modelsIn(join(snapshots, commit), budget))
        found.push({
          name: `huggingface/${user}/${repo}/${nameOf(join(snapshots, commit), path)}`,
          path,
          source: 'huggingface',
          digest: null,
        });
  }
  return found;
}

async function modelsIn(folder: string, budget: Budget): Promise<string[]> {
  const files = (await filesIn(folder, budget)).filter(
    (path) => isModelFile(path) && !isCompanion(basename(path)),
  );
  return [...new Set(files.map(firstPartOf))];
}

/** Files and links below a folder, sorted. Follows no link to a folder. */
async function filesIn(folder: string, budget: Budget, depth = 1): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const found: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    budget.entries -= 1;
    if (budget.entries < 0) return found;
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) found.push(path);
    else if (depth < DEPTH_MAX) found.push(...(await filesIn(path, budget, depth + 1)));
  }
  return found;
}

async function namesIn(folder: string, budget: Budget): Promise<string[]> {
  const names = (await readdir(folder).catch(() => []))
    .sort()
    .slice(0, Math.max(0, budget.entries));
  budget.entries -= names.length;
  return names;
}

function nameOf(folder: string, path: string): string {
  return relative(folder, withoutPart(path))
    .split(sep)
    .join('/')
    .replace(/\.gguf$/i, '');
}
