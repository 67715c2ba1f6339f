import { basename, isAbsolute, resolve } from 'node:path';
import { timeoutSignal } from '../../async/timers.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import {
  findKnown,
  findPulled,
  firstPartOf,
  isShortName,
  nameOfKnown,
  namesFrom,
  type Origins,
  shortName,
  unknownModel,
} from '../../models/index.ts';
import type { CreatedModel } from '../../ports/providers.ts';
import type { Engines } from './engines.ts';
import type { Inspector } from './inspector.ts';
import {
  fileVersion,
  isModelFile,
  type ModelFile,
  modelFilesIn,
  nameIn,
  nameOfModel,
  refuseForeign,
  twinOf,
  withoutProjectors,
} from './model-files.ts';
import type { OtherModel, OtherModels } from './stores/others.ts';

export interface ModelFinderOptions {
  folder: string;
  built_in: string;
  /** Model of a run without a model. */
  default: string;
  limits: Limits;
  engines: Pick<Engines, 'stateOf'>;
  inspector: Pick<Inspector, 'inspect'>;
  /** The models of other programs. Null: they are not looked for. */
  others?: OtherModels | null;
  origins?: Origins | null;
  /** The models that are loaded in their own way. */
  created?(): readonly CreatedModel[];
}

/**
 * Finds models by name: the built-in one, the files of the models folder, those of other programs,
 * the default model, and those that are created. A name means at most one file. No other file can
 * have the built-in name. A file of the models folder goes before that of another program.
 */
export class ModelFinder {
  /** Model of a run without a model. */
  default: string;
  private readonly options: ModelFinderOptions;

  constructor(options: ModelFinderOptions) {
    this.options = options;
    this.default = options.default;
  }

  /**
   * Finds the file for a name, or for a path, each also after `local/`. A name is `svc-mini`, one
   * in the models folder, a short name, or one of another program; or the beginning of one model's
   * name. Throws model_unknown with the known names, and model_invalid for a file in the models
   * folder.
   */
  async find(name: string): Promise<ModelFile> {
    const short = shortName(name);
    const created = this.options.created?.().find((each) => isSameName(each.name, short));
    return created === undefined ? this.findFile(name) : this.resolveCreated(created);
  }

  /** A model that is loaded in its own way, with the file of another one. Throws as `find`. */
  async resolveCreated(created: CreatedModel): Promise<ModelFile> {
    const { name, model } = created;
    return { ...(await this.findFile(model)), id: `local/${name}`, name, created };
  }

  private async findFile(name: string): Promise<ModelFile> {
    const named = await this.findNamed(name);
    if (named !== null) return named;
    const known = await this.validNames();
    const [only, ...others] = namesFrom(name, known);
    const begun =
      others.length > 0 ? undefined : (await this.listUsable()).find((file) => file.name === only);
    if (begun !== undefined) return begun;
    throw this.unknownError(name, known);
  }

  /** The model with this whole name. Throws model_unknown, model_invalid. */
  async findWhole(name: string): Promise<ModelFile> {
    const named = await this.findNamed(name);
    if (named === null) throw this.unknownError(name, await this.validNames());
    return named;
  }

  /** The model with this whole name. Null: no such model. */
  private async findNamed(name: string): Promise<ModelFile | null> {
    const short = shortName(name);
    const candidates = this.candidates(short);
    for (const path of candidates) {
      const found = this.isOurs(path)
        ? await this.probe(path)
        : await this.probe(path).catch(nullUnlessExhausted);
      if (found !== null)
        return this.isOurs(path) ? found : ((await twinOf(path, await this.listUsable())) ?? found);
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

  /** Null: there is no such file. Throws model_invalid for a file that cannot be a model. */
  private async probe(path: string): Promise<ModelFile | null> {
    const version = await fileVersion(path);
    if (version === null) return null;
    if (this.options.engines.stateOf(path) !== 'loaded') await refuseForeign(version);
    return this.fileAt(path);
  }

  /** A file of the models folder by its name, also an unreadable one. */
  async findOwn(name: string): Promise<ModelFile | null> {
    const wanted = name.replace(/\.gguf$/i, '');
    return (await this.files()).find((file) => isSameName(file.name, wanted)) ?? null;
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

  findDefault(): Promise<ModelFile | null> {
    return this.find(this.default).catch(nullUnlessExhausted);
  }

  private unknownError(name: string, known: readonly string[]): SvcError {
    const short = shortName(name);
    const isPath = !this.candidates(short).every((path) => this.isOurs(path));
    return unknownModel(name, { short, isPath, known });
  }

  /**
   * Whether an error may describe the file. For any other path the error says only that there is
   * no model, so that it reveals nothing about files.
   */
  private isOurs(path: string): boolean {
    const { folder, built_in } = this.options;
    return path === built_in || path === resolve(this.default) || nameIn(folder, path) !== null;
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

  /** The names of files that look like models. */
  private async validNames(): Promise<string[]> {
    const files = await this.listUsable();
    const late = timeoutSignal(NAMES_MS);
    const aborted = new Promise<null>((done) => late.addEventListener('abort', () => done(null)));
    const valid = await Promise.all(
      files.map(async ({ path, name }) => {
        const version = await fileVersion(path).catch(() => null);
        if (version === null) return [];
        const inspection = await Promise.race([this.options.inspector.inspect(version), aborted]);
        return (inspection?.problem ?? null) === null ? [name] : [];
      }),
    );
    return valid.flat();
  }

  private async files(): Promise<ModelFile[]> {
    const { folder, built_in, limits } = this.options;
    const inFolder = await modelFilesIn(folder, limits.local_models);
    const has = await fileVersion(built_in).catch(() => null);
    const named = await Promise.all(inFolder.map((path) => this.fileAt(path)));
    const files = withoutProjectors(named).filter(({ name }) => name !== nameOf(built_in));
    return has === null ? files : [await this.fileAt(built_in), ...files];
  }

  private async fileAt(path: string): Promise<ModelFile> {
    const { folder, built_in } = this.options;
    const name = path === built_in ? nameOf(built_in) : ((await nameOfModel(folder, path)) ?? path);
    return { id: `local/${name}`, name, path };
  }

  /** The models without a known problem. */
  private async listUsable(): Promise<ModelFile[]> {
    const others = (await this.otherModels()).filter(({ problem }) => problem === undefined);
    return [...(await this.files()), ...others.map(fileOf)];
  }

  async listAll(): Promise<ModelFile[]> {
    return [...(await this.files()), ...(await this.otherModels()).map(fileOf)];
  }

  /** The entry of its program for a model. Undefined: it is of no other program. */
  async otherOf({ name, path, created }: ModelFile): Promise<OtherModel | undefined> {
    const isIt = (other: OtherModel) =>
      created === undefined ? other.name === name : other.path === path;
    return (await this.otherModels()).find(isIt);
  }

  private async otherModels(): Promise<readonly OtherModel[]> {
    return (await this.options.others?.find()) ?? [];
  }

  /** Where svc has it from. Null: unknown. */
  async originOf(file: ModelFile) {
    const version = await fileVersion(file.path).catch(() => null);
    if (version === null || nameIn(this.options.folder, file.path) === null) return null;
    return (await this.options.origins?.read(basename(file.path), version)) ?? null;
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

/** Without a descriptor the file is unknown, not missing. */
function nullUnlessExhausted(error: unknown): null {
  if (asSvcError(error).code === 'descriptors_exhausted') throw error;
  return null;
}

function nameOf(path: string): string {
  return basename(path, '.gguf');
}
