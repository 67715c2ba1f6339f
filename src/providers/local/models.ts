import { unlink } from 'node:fs/promises';
import { basename, isAbsolute, resolve } from 'node:path';
import { timeoutSignal } from '../../async/timers.ts';
import type { Attention } from '../../contract/attention.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { findKnown, isShortName, nameOfKnown } from '../../models/catalogue.ts';
import { projectorName } from '../../models/gguf/companions.ts';
import { firstPartOf, partsOf, withoutPart } from '../../models/gguf/parts.ts';
import { namesFrom, shortName, unknownModel } from '../../models/model-names.ts';
import { findPulled, type Origins } from '../../models/origins.ts';
import type { ModelRecord, PartialModel } from '../port.ts';
import type { Adapter } from './engine/native/adapters.ts';
import type { Engines } from './engines.ts';
import type { ModelInspection } from './inspection.ts';
import { Inspector } from './inspector.ts';
import type { LoadGuard } from './load-guard.ts';
import type { ModelFile } from './model-engine-options.ts';
import {
  type FileVersion,
  fileVersion,
  isModelFile,
  type Left,
  modelFilesIn,
  nameIn,
  nameOfModel,
  partialsIn,
  projectorOf,
  refuseForeign,
  twinOf,
  withoutProjectors,
} from './model-files.ts';
import { identityOf, identityWith } from './model-identity.ts';
import { type ModelExtras, modelExtras, modelRecord, partialRecord } from './model-record.ts';
import type { OtherModel, OtherModels } from './stores/others.ts';

export interface LocalModelsOptions {
  folder: string;
  built_in: string;
  /** Model of a run without a model. */
  default: string;
  limits: Limits;
  attention: Attention;
  engines: Pick<Engines, 'stateOf' | 'unload' | 'fit'>;
  guard: Pick<LoadGuard, 'outcomeOf'>;
  /** The models of other programs. Null: they are not looked for. */
  others?: OtherModels | null;
  origins?: Origins | null;
  /** The chat templates that the configuration names. A name may have several, or be no model. */
  templates?(): readonly { model: string; template: string }[];
  /** The LoRA adapters that the configuration names for models. */
  adapters?(): readonly { model: string; adapters: readonly string[] }[];
  /** Whether a download writes this file of the models folder. */
  isWriting?(file: string): boolean;
}

/**
 * The available models: the built-in one, the files of the models folder, those of other programs,
 * and the default model.
 *
 * 1. A name means at most one file. No other file can have the built-in name. A file of the models
 *    folder goes before that of another program.
 * 2. Only a file in the models folder can be removed, and only while it is not in use.
 */
export class LocalModels {
  /** Model of a run without a model. */
  default: string;
  /** The names as they were last read. Null: not yet. */
  listed: readonly string[] | null = null;
  private readonly options: LocalModelsOptions;
  private readonly inspector: Inspector;

  constructor(options: LocalModelsOptions) {
    this.options = options;
    this.default = options.default;
    this.inspector = new Inspector(options.limits);
  }

  /**
   * Finds the file for a name, or for a path, each also after `local/`. A name is `svc-mini`, one
   * in the models folder, a short name, or one of another program; or the beginning of one model's
   * name. Throws model_unknown with the known names, and model_invalid for a file in the models
   * folder.
   */
  async find(name: string): Promise<ModelFile> {
    const named = await this.findNamed(name);
    if (named !== null) return named;
    const known = await this.validNames();
    const [only, ...others] = namesFrom(name, known);
    const begun =
      others.length > 0 ? undefined : (await this.usable()).find((file) => file.name === only);
    if (begun !== undefined) return begun;
    throw this.unknown(name, known);
  }

  /** The model with this whole name. Null: there is none. */
  private async findNamed(name: string): Promise<ModelFile | null> {
    const short = shortName(name);
    const candidates = this.candidates(short);
    for (const path of candidates) {
      const found = this.isOurs(path)
        ? await this.probe(path)
        : await this.probe(path).catch(nullUnlessExhausted);
      if (found !== null)
        return this.isOurs(path) ? found : ((await twinOf(path, await this.usable())) ?? found);
    }
    const named = await this.findOwn(short);
    const own = named === null ? null : await this.probe(named.path);
    if (own !== null) return own;
    const other = await this.findOther(short);
    if (other?.problem !== undefined)
      throw new SvcError('model_invalid', `${other.name} cannot be used: ${other.problem}.`, {
        param: 'model',
        hint: 'See: svc model list',
      });
    if (other !== null) return fileOf(other);
    return findPulled(short, await this.files(), (file) => this.originOf(file));
  }

  private unknown(name: string, known: readonly string[]): SvcError {
    const short = shortName(name);
    const isPath = !this.candidates(short).every((path) => this.isOurs(path));
    return unknownModel(name, { short, isPath, known });
  }

  /** Null: there is no such file. Throws model_invalid for a file that cannot be a model. */
  private async probe(path: string): Promise<ModelFile | null> {
    const version = await fileVersion(path);
    if (version === null) return null;
    if (this.options.engines.stateOf(path) !== 'loaded') await refuseForeign(version);
    return this.fileAt(path);
  }

  /** A file of the models folder by its name, also one that cannot be read. */
  private async findOwn(name: string): Promise<ModelFile | null> {
    const wanted = name.replace(/\.gguf$/i, '');
    return (await this.files()).find((file) => isSameName(file.name, wanted)) ?? null;
  }

  /**
   * Whether an error may describe the file. For any other path the error says only that there is
   * no model, so that it reveals nothing about files.
   */
  private isOurs(path: string): boolean {
    const { folder, built_in } = this.options;
    return path === built_in || path === resolve(this.default) || nameIn(folder, path) !== null;
  }

  /**
   * Which file it is, with its adapters. Its digest is that of its record. Null: one of them cannot
   * be read.
   */
  async identify(file: ModelFile): Promise<string | null> {
    const own = await identityOf(file.path, () => this.recordedDigest(file));
    return identityWith(own, await this.adaptersOf(file));
  }

  /** The LoRA adapters that the configuration names for a file, with the scales of a request. */
  async adaptersOf(file: ModelFile): Promise<Adapter[]> {
    const rows = this.options.adapters?.() ?? [];
    const named = await this.namedFor(file, rows, ({ adapters }) => adapters);
    return named.map((path, id) => ({ path, scale: file.scales?.[id] ?? 1 }));
  }

  /** What rows of the configuration have for a file, by its names. */
  private async namedFor<R extends { model: string }>(
    { path }: ModelFile,
    rows: readonly R[],
    valuesOf: (row: R) => readonly string[],
  ): Promise<string[]> {
    const named = new Set<string>();
    if (path === this.options.built_in) return [];
    for (const row of rows)
      if ((await this.find(row.model).catch(() => null))?.path === path)
        for (const value of valuesOf(row)) named.add(value);
    return [...named];
  }

  /** The templates that the configuration names for a file. The built-in model keeps its form. */
  templatesOf(file: ModelFile): Promise<string[]> {
    return this.namedFor(file, this.options.templates?.() ?? [], ({ template }) => [template]);
  }

  /** Names without the provider. Reads no model file. */
  async names(): Promise<string[]> {
    const own = (await this.files()).map(({ name }) => name);
    this.listed = [...own, ...(await this.otherModels()).map(({ name }) => name)];
    return [...this.listed];
  }

  /** The names of files that look like models. */
  private async validNames(): Promise<string[]> {
    const files = await this.usable();
    const late = timeoutSignal(NAMES_MS);
    const aborted = new Promise<null>((done) => late.addEventListener('abort', () => done(null)));
    const valid = await Promise.all(
      files.map(async ({ path, name }) => {
        const version = await fileVersion(path).catch(() => null);
        if (version === null) return [];
        const inspection = await Promise.race([this.inspector.inspect(version), aborted]);
        return (inspection?.problem ?? null) === null ? [name] : [];
      }),
    );
    return valid.flat();
  }

  /** Reads the headers of new files. After an abort, returns what is known by then. */
  async list(signal: AbortSignal): Promise<ModelRecord[]> {
    const aborted = new Promise<null>((done) =>
      signal.aborted ? done(null) : signal.addEventListener('abort', () => done(null)),
    );
    const defaultFile = await this.findDefault();
    const files = await this.all();
    if (defaultFile !== null && !files.some(({ path }) => path === defaultFile.path))
      files.push(defaultFile);
    const inspect = (version: FileVersion, templates: readonly string[]) =>
      Promise.race([this.inspector.inspect(version, templates), aborted]);
    return Promise.all(
      files.map(async (file) => (await this.facts(file, defaultFile, inspect)).record),
    );
  }

  /** The models folder, and what downloads left in it. */
  async place(): Promise<{ folder: string; partial: PartialModel[] }> {
    const { folder, limits } = this.options;
    const partial = await partialsIn(folder, limits.local_models);
    return { folder, partial: partial.map(({ paths: _, ...one }) => one) };
  }

  /** Shows a model with its metadata, up to the bound. Throws model_unknown, model_invalid. */
  async show(
    id: string,
  ): Promise<
    ModelRecord &
      ModelExtras &
      Pick<OtherModel, 'unused' | 'defaults'> & {
        attention: Attention;
        projector: string | null;
        adapters: string[];
      }
  > {
    const file = await this.find(id);
    const { record, inspection } = await this.facts(file, await this.findDefault(), (...asked) =>
      this.inspector.describe(...asked),
    );
    const metadata = inspection?.metadata ?? null;
    const other = (await this.otherModels()).find(({ name }) => name === file.name);
    return {
      ...record,
      ...modelExtras(record, metadata, await this.originOf(file), inspection?.template ?? null),
      attention: this.options.attention,
      projector: await projectorOf(file.path),
      adapters: (await this.adaptersOf(file)).map(({ path }) => path),
      unused: other?.unused ?? [],
      ...(other?.defaults === undefined ? {} : { defaults: other.defaults }),
    };
  }

  /**
   * Deletes the file of a model in the models folder, or what a download left of it. Throws
   * model_unknown, model_in_use, invalid_request, busy.
   */
  async remove(id: string): Promise<ModelRecord> {
    const { folder, origins } = this.options;
    const short = shortName(id);
    const partial = await this.findPartial(short);
    const own = await this.findOwn(short);
    if (own === null && partial !== null) return this.removePartial(partial);
    // What is deleted has to be named as a whole.
    const file = own ?? (await this.findNamed(id));
    if (file === null) throw this.unknown(id, await this.validNames());
    if (file.path === this.options.built_in)
      throw new SvcError('model_in_use', 'The built-in model cannot be removed.', {
        param: 'model',
        hint: 'It is a part of svc. To use another one by default: svc model use <name>',
      });
    const inside = nameIn(folder, file.path);
    if (inside === null) {
      throw new SvcError('invalid_request', 'Only models in the models folder are removed.', {
        param: 'model',
        hint: `Delete the file yourself: ${file.path}`,
      });
    }
    const { engines, limits } = this.options;
    await engines.unload(file.path, timeoutSignal(3 * limits.engine_stop_ms));
    const { record } = await this.facts(file, await this.findDefault(), (...asked) =>
      this.inspector.inspect(...asked),
    );
    const projector = projectorName(withoutPart(file.path));
    for (const part of [...partsOf(file.path), projector]) await unlink(part).catch(unlessMissing);
    await origins?.remove(basename(file.path));
    return record;
  }

  private async findPartial(name: string) {
    const wanted = name.replace(/(\.gguf)?(\.partial)?$/i, '');
    const known = isShortName(wanted) ? findKnown(wanted) : null;
    const names = [wanted, ...(known === null ? [] : [nameOfKnown(known)])];
    const { folder, limits } = this.options;
    const partial = await partialsIn(folder, limits.local_models);
    return partial.find((one) => names.includes(one.name)) ?? null;
  }

  private async removePartial({ name, size_bytes, path, paths }: Left): Promise<ModelRecord> {
    if (paths.some((each) => this.options.isWriting?.(basename(each, '.partial')) === true))
      throw new SvcError('busy', `A download writes ${name} now.`, {
        retryable: false,
        hint: 'Cancel it with Ctrl-C where it runs, then try again.',
      });
    for (const each of paths) {
      await unlink(each).catch(unlessMissing);
      await unlink(`${each}.json`).catch(() => undefined);
    }
    return partialRecord({ id: `local/${name}`, name, path }, size_bytes);
  }

  /** Possible paths for a name, in order of preference. */
  private candidates(name: string): string[] {
    const { folder, built_in } = this.options;
    if (name === nameOf(built_in)) return [built_in];
    const known = isShortName(name) ? findKnown(name) : null;
    const inside = [name, ...(known === null ? [] : [nameOfKnown(known)])]
      .flatMap((each) => (isModelFile(each) ? [each] : [`${each}.gguf`, `${each}.GGUF`]))
      .map((each) => firstPartOf(resolve(folder, each)))
      .filter((path) => nameIn(folder, path) !== null);
    const elsewhere =
      isAbsolute(name) || /^\.\.?[\\/]/.test(name) || isModelFile(name)
        ? [firstPartOf(resolve(name))]
        : [];
    return [...inside, ...elsewhere];
  }

  private async fileAt(path: string): Promise<ModelFile> {
    const { folder, built_in } = this.options;
    const name = path === built_in ? nameOf(built_in) : ((await nameOfModel(folder, path)) ?? path);
    return { id: `local/${name}`, name, path };
  }

  private async files(): Promise<ModelFile[]> {
    const { folder, built_in, limits } = this.options;
    const inFolder = await modelFilesIn(folder, limits.local_models);
    const has = await fileVersion(built_in).catch(() => null);
    const named = await Promise.all(inFolder.map((path) => this.fileAt(path)));
    const files = withoutProjectors(named).filter(({ name }) => name !== nameOf(built_in));
    return has === null ? files : [await this.fileAt(built_in), ...files];
  }

  /** The models that nothing is known against. */
  private async usable(): Promise<ModelFile[]> {
    const others = (await this.otherModels()).filter(({ problem }) => problem === undefined);
    return [...(await this.files()), ...others.map(fileOf)];
  }

  private async all(): Promise<ModelFile[]> {
    return [...(await this.files()), ...(await this.otherModels()).map(fileOf)];
  }

  private async otherModels(): Promise<readonly OtherModel[]> {
    return (await this.options.others?.find()) ?? [];
  }

  /** By its whole name, or by the only one without the name of the program. */
  private async findOther(name: string): Promise<OtherModel | null> {
    const all = await this.otherModels();
    const wanted = name.replace(/:latest$/, '');
    const exact = all.find(
      (model) => isSameName(model.name, name) || isSameName(model.name, `${name}:latest`),
    );
    if (exact !== undefined) return exact;
    const fitting = all.filter(({ name: full }) => {
      const inner = full.slice(full.indexOf('/') + 1);
      return isSameName(inner.replace(/:latest$/, ''), wanted);
    });
    return fitting.length === 1 ? (fitting[0] ?? null) : null;
  }

  private findDefault(): Promise<ModelFile | null> {
    return this.find(this.default).catch(nullUnlessExhausted);
  }

  /** The digest that another program or the download has recorded. It reads no model file. */
  private async recordedDigest(file: ModelFile): Promise<string | null> {
    const other = (await this.otherModels()).find(({ name }) => name === file.name);
    const origin = other?.digest == null ? await this.originOf(file) : null;
    return other?.digest ?? (origin === null ? null : `sha256:${origin.sha256}`);
  }

  /** Where svc has it from. Null: unknown. */
  async originOf(file: ModelFile) {
    const version = await fileVersion(file.path).catch(() => null);
    if (version === null || nameIn(this.options.folder, file.path) === null) return null;
    return (await this.options.origins?.read(basename(file.path), version)) ?? null;
  }

  private async facts<I extends ModelInspection>(
    file: ModelFile,
    defaultFile: ModelFile | null,
    inspect: (version: FileVersion, templates: readonly string[]) => Promise<I | null>,
  ): Promise<{ record: ModelRecord; inspection: I | null }> {
    const { built_in, engines, guard } = this.options;
    const version = await fileVersion(file.path).catch(() => null);
    const inspection =
      version === null ? null : await inspect(version, await this.templatesOf(file));
    const flags = { default: file.path === defaultFile?.path, built_in: file.path === built_in };
    const other = (await this.otherModels()).find(({ name }) => name === file.name);
    const { shape = null, capabilities = [] } = inspection ?? {};
    const isRead = capabilities.some((each) => each === 'embedding' || each === 'reranking');
    const purpose = isRead ? 'embeddings' : 'answers';
    return {
      record: modelRecord({
        file,
        version,
        inspection,
        ...flags,
        outcome: guard.outcomeOf(file.path, version?.version ?? ''),
        in_engine: engines.stateOf(file.path),
        problem: other?.problem ?? null,
        source: other?.source ?? 'svc',
        digest: inspection?.digest === null ? await this.recordedDigest(file) : null,
        fit: shape === null ? null : engines.fit(shape, purpose),
      }),
      inspection,
    };
  }
}

/** For the headers of new files, in an error. */
const NAMES_MS = 1_000;

function fileOf({ name, path, defaults }: OtherModel): ModelFile {
  return { id: `local/${name}`, name, path, ...(defaults === undefined ? {} : { defaults }) };
}

/** Programs write one name in several forms of Unicode. */
function isSameName(one: string, other: string): boolean {
  return one.normalize('NFC') === other.normalize('NFC');
}

function unlessMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

/** Without a descriptor the file is unknown, not missing. */
function nullUnlessExhausted(error: unknown): null {
  if (asSvcError(error).code === 'descriptors_exhausted') throw error;
  return null;
}

function nameOf(path: string): string {
  return basename(path, '.gguf');
}
