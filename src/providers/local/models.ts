import { unlink } from 'node:fs/promises';
import { basename, isAbsolute, resolve } from 'node:path';
import { asSvcError, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { findKnown, isShortName, nameOfKnown } from '../../models/catalogue.ts';
import type { ModelRecord } from '../port.ts';
import type { Engines } from './engines.ts';
import type { ModelInspection, ModelMetadata } from './inspection.ts';
import { type FileVersion, Inspector } from './inspector.ts';
import type { ModelFile } from './model-engine.ts';
import { fileVersion, modelFilesIn, nameIn, refuseForeign } from './model-files.ts';
import { modelRecord } from './model-record.ts';

export interface LocalModelsOptions {
  folder: string;
  built_in: string;
  /** Model of a run without a model. */
  default: string;
  limits: Limits;
  engines: Pick<Engines, 'stateOf' | 'unload'>;
}

/**
 * The available models: the built-in one, the files of the models folder, and the default model.
 *
 * 1. A name means at most one file. No other file can have the built-in name.
 * 2. Only a file in the models folder can be removed, and only while it is not in use.
 */
export class LocalModels {
  private readonly options: LocalModelsOptions;
  private readonly inspector: Inspector;

  constructor(options: LocalModelsOptions) {
    this.options = options;
    this.inspector = new Inspector(options.limits);
  }

  /**
   * Finds the file for a name: `svc-mini`, a name in the models folder, or a path, each also
   * after `local/`. Throws model_unknown with the known names, and model_invalid for a file in
   * the models folder.
   */
  async find(name: string): Promise<ModelFile> {
    const short = shortName(name);
    const candidates = this.candidates(short);
    for (const path of candidates) {
      const found = this.isOurs(path)
        ? await this.probe(path)
        : await this.probe(path).catch(nullUnlessExhausted);
      if (found !== null) return found;
    }
    const known = await this.names();
    const what = candidates.every((path) => this.isOurs(path))
      ? 'There is no model'
      : 'There is no GGUF file that the daemon can read, and no model,';
    throw new SvcError(
      'model_unknown',
      `${what} ${JSON.stringify(name)}. Known: ${known.join(', ')}.`,
      { param: 'model', details: { known } },
    );
  }

  /** Null: there is no such file. Throws model_invalid for a file that cannot be a model. */
  private async probe(path: string): Promise<ModelFile | null> {
    if ((await fileVersion(path)) === null) return null;
    if (this.options.engines.stateOf(path) !== 'loaded') await refuseForeign(path);
    return this.fileAt(path);
  }

  /**
   * Whether an error may describe the file. For any other path the error says only that there is
   * no model, so that it reveals nothing about files.
   */
  private isOurs(path: string): boolean {
    const { folder, built_in } = this.options;
    return (
      path === built_in || path === resolve(this.options.default) || nameIn(folder, path) !== null
    );
  }

  /** Names without the provider. Reads no file. */
  async names(): Promise<string[]> {
    return (await this.files()).map(({ name }) => name);
  }

  /** Reads the headers of new files. After an abort, returns what is known by then. */
  async list(signal: AbortSignal): Promise<ModelRecord[]> {
    const aborted = new Promise<null>((done) =>
      signal.aborted
        ? done(null)
        : signal.addEventListener('abort', () => done(null), { once: true }),
    );
    const defaultFile = await this.findDefault();
    const files = await this.files();
    if (defaultFile !== null && !files.some(({ path }) => path === defaultFile.path))
      files.push(defaultFile);
    const inspect = (version: FileVersion) =>
      Promise.race([this.inspector.inspect(version), aborted]);
    return Promise.all(
      files.map(async (file) => (await this.facts(file, defaultFile, inspect)).record),
    );
  }

  /** Shows a model with its metadata, up to the bound. Throws model_unknown, model_invalid. */
  async show(id: string): Promise<ModelRecord & ModelMetadata> {
    const file = await this.find(id);
    const { record, inspection } = await this.facts(file, await this.findDefault(), (version) =>
      this.inspector.describe(version),
    );
    return { ...record, ...(inspection?.metadata ?? { metadata: {}, metadata_left_out: 0 }) };
  }

  /**
   * Deletes the file of a model in the models folder. Throws model_unknown, model_in_use,
   * invalid_request.
   */
  async remove(id: string): Promise<ModelRecord> {
    const name = shortName(id).replace(/\.gguf$/, '');
    const file = (await this.files()).find((one) => one.name === name) ?? (await this.find(id));
    if (file.path === this.options.built_in)
      throw new SvcError('model_in_use', 'The built-in model cannot be removed.', {
        param: 'model',
      });
    if (nameIn(this.options.folder, file.path) === null) {
      throw new SvcError('invalid_request', 'Only models in the models folder are removed.', {
        param: 'model',
        hint: `Delete the file yourself: ${file.path}`,
      });
    }
    const { engines, limits } = this.options;
    await engines.unload(file.path, AbortSignal.timeout(3 * limits.engine_stop_ms));
    const { record } = await this.facts(file, await this.findDefault(), (version) =>
      this.inspector.inspect(version),
    );
    await unlink(file.path);
    return record;
  }

  /** Possible paths for a name, in order of preference. */
  private candidates(name: string): string[] {
    const { folder, built_in } = this.options;
    if (name === nameOf(built_in)) return [built_in];
    const known = isShortName(name) ? findKnown(name) : null;
    const inside = [name, ...(known === null ? [] : [nameOfKnown(known)])]
      .map((each) => resolve(folder, each.endsWith('.gguf') ? each : `${each}.gguf`))
      .filter((path) => nameIn(folder, path) !== null);
    const elsewhere = isAbsolute(name) || /^\.\.?[\\/]|\.gguf$/.test(name) ? [resolve(name)] : [];
    return [...inside, ...elsewhere];
  }

  private fileAt(path: string): ModelFile {
    const { folder, built_in } = this.options;
    const name = path === built_in ? nameOf(built_in) : (nameIn(folder, path) ?? path);
    return { id: `local/${name}`, name, path };
  }

  private async files(): Promise<ModelFile[]> {
    const { folder, built_in, limits } = this.options;
    const inFolder = await modelFilesIn(folder, limits.local_models);
    const has = await fileVersion(built_in).catch(() => null);
    const files = inFolder
      .map((path) => this.fileAt(path))
      .filter(({ name }) => name !== nameOf(built_in));
    return has === null ? files : [this.fileAt(built_in), ...files];
  }

  private findDefault(): Promise<ModelFile | null> {
    return this.find(this.options.default).catch(nullUnlessExhausted);
  }

  private async facts<I extends ModelInspection>(
    file: ModelFile,
    defaultFile: ModelFile | null,
    inspect: (version: FileVersion) => Promise<I | null>,
  ): Promise<{ record: ModelRecord; inspection: I | null }> {
    const { built_in, engines } = this.options;
    const version = await fileVersion(file.path).catch(() => null);
    const inspection = version === null ? null : await inspect(version);
    const flags = { default: file.path === defaultFile?.path, built_in: file.path === built_in };
    return {
      record: modelRecord({
        file,
        version,
        inspection,
        in_engine: engines.stateOf(file.path),
        ...flags,
      }),
      inspection,
    };
  }
}

/** Without a descriptor the file is unknown, not missing. */
function nullUnlessExhausted(error: unknown): null {
  if (asSvcError(error).code === 'descriptors_exhausted') throw error;
  return null;
}

function shortName(id: string): string {
  return id.replace(/^local\//, '');
}

function nameOf(path: string): string {
  return basename(path, '.gguf');
}
