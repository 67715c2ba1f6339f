import { unlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { timeoutSignal } from '../../async/timers.ts';
import type { Attention } from '../../contract/attention.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import type { Adapter, ModelInspection } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import {
  findKnown,
  isShortName,
  nameOfKnown,
  type Origins,
  partsOf,
  projectorName,
  shortName,
  withoutPart,
} from '../../models/index.ts';
import type { CreatedModel, PartialModel } from '../../ports/providers.ts';
import type { Engines } from './engines.ts';
import type { Inspector } from './inspector.ts';
import {
  type FileVersion,
  fileVersion,
  type Left,
  type ModelFile,
  nameIn,
  partialsIn,
  projectorOf,
  refuseForeign,
} from './model-files.ts';
import type { ModelFinder } from './model-finder.ts';
import { identityOf, identityWith } from './model-identity.ts';
import { type ModelExtras, modelExtras, modelRecord, partialRecord } from './model-record.ts';
import type { OtherModel } from './stores/others.ts';

/** The files that the configuration names for a model. */
export interface ByModel<V> {
  model: string;
  value: V;
}

export interface LocalModelsOptions {
  folder: string;
  built_in: string;
  finder: ModelFinder;
  inspector: Inspector;
  limits: Limits;
  attention: Attention;
  engines: Pick<Engines, 'stateOf' | 'unload' | 'residency' | 'guard'>;
  origins?: Pick<Origins, 'remove'> | null;
  /** The chat templates that the configuration names. A name may have several, or be no model. */
  templates?(): readonly ByModel<string>[];
  /** The LoRA adapters that the configuration names for models. */
  adapters?(): readonly ByModel<readonly string[]>[];
  /** The draft models that the configuration names for models, by name. */
  drafts?(): readonly ByModel<string>[];
  /** Whether a download writes this file of the models folder. */
  isWriting?(file: string): boolean;
}

/**
 * The facts about the available models. Only a file in the models folder can be removed, and only
 * while it is not in use.
 */
export class LocalModels {
  /** The names as they were last read. Null: not yet. */
  listed: readonly string[] | null = null;
  private readonly options: LocalModelsOptions;
  private readonly finder: ModelFinder;
  private readonly inspector: Inspector;

  constructor(options: LocalModelsOptions) {
    this.options = options;
    this.finder = options.finder;
    this.inspector = options.inspector;
  }

  /**
   * Which file it is, with its adapters and templates. Its digest is that of its record. Null: a
   * file cannot be read.
   */
  async identify(file: ModelFile): Promise<string | null> {
    const own = await identityOf(file.path, () => this.recordedDigest(file));
    const [adapters, templates] = [await this.adaptersOf(file), await this.templatesOf(file)];
    return identityWith(own, { adapters, templates });
  }

  /** The LoRA adapters of a model, with the scales of a request. */
  async adaptersOf(file: ModelFile): Promise<Adapter[]> {
    const named =
      file.created?.adapters ?? (await this.configuredFor(file, this.options.adapters?.()));
    return named.map((path, id) => ({ path, scale: file.scales?.[id] ?? 1 }));
  }

  /** The file of a name, with the draft model that the configuration names for it. */
  async find(name: string): Promise<ModelFile> {
    const file = await this.finder.find(name);
    const draft = await this.draftOf(file);
    if (draft === null) return file;
    if (draft.file !== null) return { ...file, draft: draft.file };
    const message = `The draft model of ${file.name} is not there: ${draft.name}.`;
    const hint = 'Correct model_drafts. See: svc model list';
    throw new SvcError('model_unknown', message, { param: 'model', hint });
  }

  /** The draft model that the configuration names. Without a file it is not there. */
  private async draftOf(of: ModelFile): Promise<{ name: string; file: ModelFile | null } | null> {
    const [name] = await this.configuredFor(of, this.options.drafts?.());
    if (name === undefined) return null;
    return { name, file: await this.finder.find(name).catch(() => null) };
  }

  /** The values that the configuration has for a file, by its names. */
  private async configuredFor(
    { path }: ModelFile,
    rows: readonly ByModel<string | readonly string[]>[] = [],
  ): Promise<string[]> {
    const named = new Set<string>();
    if (path === this.options.built_in) return [];
    for (const { model, value } of rows)
      if ((await this.finder.find(model).catch(() => null))?.path === path)
        for (const each of [value].flat()) named.add(each);
    return [...named];
  }

  /** The templates in place of that of its file. The built-in model keeps its form. */
  async templatesOf(file: ModelFile): Promise<string[]> {
    const own = file.created?.chat_template;
    if (own !== undefined) return [own];
    return this.configuredFor(file, this.options.templates?.());
  }

  /** Names without the provider. Reads no model file. */
  async names(): Promise<string[]> {
    this.listed = (await this.finder.listAll()).map(({ name }) => name);
    return [...this.listed];
  }

  /** Reads the headers of new files. After an abort, returns the facts that are known by then. */
  async list(signal: AbortSignal): Promise<ModelRecord[]> {
    const aborted = new Promise<null>((done) =>
      signal.aborted ? done(null) : signal.addEventListener('abort', () => done(null)),
    );
    const defaultFile = await this.finder.findDefault();
    const files = await this.finder.listAll();
    if (defaultFile !== null && !files.some(({ path }) => path === defaultFile.path))
      files.push(defaultFile);
    const inspect = (version: FileVersion, templates: readonly string[]) =>
      Promise.race([this.inspector.inspect(version, templates), aborted]);
    return Promise.all(
      files.map(async (file) => (await this.facts(file, defaultFile, inspect)).record),
    );
  }

  /** The models folder, and the unfinished downloads in it. */
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
        draft: { model: string; problem: string | null } | null;
      }
  > {
    const file = await this.finder.find(id);
    const draft = await this.draftOf(file);
    const { record, inspection } = await this.facts(
      file,
      await this.finder.findDefault(),
      (...asked) => this.inspector.describe(...asked, draft?.file?.path),
    );
    const metadata = inspection?.metadata ?? null;
    const other = await this.finder.otherOf(file);
    return {
      ...record,
      ...modelExtras(
        record,
        metadata,
        await this.finder.originOf(file),
        inspection?.template ?? null,
      ),
      attention: this.options.attention,
      projector: await projectorOf(file.path),
      adapters: (await this.adaptersOf(file)).map(({ path }) => path),
      draft: draft && {
        model: draft.name,
        problem: draft.file === null ? 'it is not there' : (inspection?.draft_problem ?? null),
      },
      unused: other?.unused ?? [],
      ...(other?.defaults === undefined ? {} : { defaults: other.defaults }),
    };
  }

  /**
   * Throws model_unknown, model_invalid and invalid_request for a model that cannot be loaded so.
   */
  async check(created: CreatedModel): Promise<void> {
    const { path } = await this.finder.resolveCreated(created);
    const { adapters = [], chat_template } = created;
    if (path === this.options.built_in)
      throw requestError('from', 'The built-in model keeps its template, and has no adapters.');
    for (const adapter of adapters) {
      const version = await fileVersion(adapter);
      if (version === null) throw requestError('adapters', `There is no file ${adapter}.`);
      await refuseForeign(version);
    }
    const version = chat_template === undefined ? null : await fileVersion(path);
    if (chat_template === undefined || version === null) return;
    const { template_problem } = await this.inspector.describe(version, [chat_template]);
    if (template_problem !== undefined)
      throw requestError('template', `The template ${template_problem.replace(/, so .*$/, '')}.`);
  }

  /**
   * Deletes the file of a model in the models folder, or the parts that a download left of it.
   * Throws model_unknown, model_in_use, invalid_request, busy.
   */
  async remove(id: string): Promise<ModelRecord> {
    const { folder, origins } = this.options;
    const short = shortName(id);
    const partial = await this.findPartial(short);
    const own = await this.finder.findOwn(short);
    if (own === null && partial !== null) return this.removePartial(partial);
    // A file to delete has to be named as a whole.
    const file = own ?? (await this.finder.findWhole(id));
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
    const { record } = await this.facts(file, await this.finder.findDefault(), (...asked) =>
      this.inspector.inspect(...asked),
    );
    const projector = projectorName(withoutPart(file.path));
    for (const part of [...partsOf(file.path), projector]) await unlink(part).catch(ignoreMissing);
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
      await unlink(each).catch(ignoreMissing);
      await unlink(`${each}.json`).catch(() => undefined);
    }
    return partialRecord({ id: `local/${name}`, name, path }, size_bytes);
  }

  /** The digest that another program or the download has recorded. It reads no model file. */
  private async recordedDigest(file: ModelFile): Promise<string | null> {
    const other = await this.finder.otherOf(file);
    const origin = other?.digest == null ? await this.finder.originOf(file) : null;
    return other?.digest ?? (origin === null ? null : `sha256:${origin.sha256}`);
  }

  private async facts<I extends ModelInspection>(
    file: ModelFile,
    defaultFile: ModelFile | null,
    inspect: (version: FileVersion, templates: readonly string[]) => Promise<I | null>,
  ): Promise<{ record: ModelRecord; inspection: I | null }> {
    const { built_in, engines } = this.options;
    const { guard, residency } = engines;
    const version = await fileVersion(file.path).catch(() => null);
    const inspection =
      version === null ? null : await inspect(version, await this.templatesOf(file));
    const isDefault = file.path === defaultFile?.path && file.created === undefined;
    const flags = { default: isDefault, built_in: file.path === built_in };
    const other = await this.finder.otherOf(file);
    const { shape = null, capabilities = [] } = inspection ?? {};
    const isRead = capabilities.some((each) => each === 'embedding' || each === 'reranking');
    const purpose = isRead ? 'embeddings' : 'answers';
    return {
      record: modelRecord({
        file,
        version,
        inspection,
        ...flags,
        outcome: guard.find(file.path, version?.version ?? ''),
        in_engine: engines.stateOf(file.path),
        problem: other?.problem ?? null,
        source: other?.source ?? 'svc',
        digest: inspection?.digest === null ? await this.recordedDigest(file) : null,
        fit: shape === null ? null : residency.fit(shape, purpose),
      }),
      inspection,
    };
  }
}

function requestError(param: string, message: string): SvcError {
  return new SvcError('invalid_request', message, { param });
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
