import { isAbsolute } from 'node:path';
import type { Config } from '../../config/config.ts';
import type { ModelChoices } from '../../config/models-file.ts';
import {
  hasOwnLoad,
  type ModelPreset,
  modelPresetProblem,
  requestPart,
} from '../../config/presets.ts';
import { refuseConfigured } from '../../config/refuse-configured.ts';
import { settingSpecs } from '../../config/settings.ts';
import { invalidRequest, withoutNull } from '../../contract/check.ts';
import type {
  Aliases,
  ModelDetails,
  NextInput,
  NextTurn,
  RunInput,
} from '../../contract/contract.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { CreatedModel, PartialModel } from '../../ports/providers.ts';
import { rejectWhenStalled } from '../disk/refuse-when-stalled.ts';
import type { ChangeConfig } from '../providers/change.ts';
import { LOCAL, type Providers } from '../providers/providers.ts';
import { nameAlone } from '../providers/records.ts';
import { chooseRoutes, namesFile } from '../runs/route.ts';
import { aliasOf, loadedAliasesOf, withoutTag, withPreset } from './alias.ts';
import { createFromModelfile, type ModelfileInput } from './from-modelfile.ts';
import { writeModelfile } from './modelfile.ts';

/** The models of the local engine. */
export interface LocalModelsPort {
  /** Model of a run without a model. */
  default: string;
  show(id: string): Promise<ModelDetails>;
  /** Throws model_unknown, invalid_request and model_invalid for what cannot be loaded so. */
  check(created: CreatedModel): Promise<void>;
  remove(id: string): Promise<ModelRecord>;
  place(): Promise<{ folder: string; partial: PartialModel[] }>;
}

export interface ModelsOptions {
  kernel: Kernel;
  config: Config;
  providers: Pick<Providers, 'models' | 'probe' | 'settings' | 'listed'>;
  local: LocalModelsPort;
  saveChoices(edit: (choices: ModelChoices) => ModelChoices): Promise<ModelChoices>;
  change: ChangeConfig;
}

/** An alias, as a model. */
export type MadeModel = ModelRecord & Pick<ModelDetails, 'alias_of'>;

/**
 * Requests about models. A choice by `use` or `setAlias` takes effect at once, and survives a
 * restart. The configuration of the user has priority over it.
 */
export class Models {
  private readonly options: ModelsOptions;
  /** The aliases that the configuration sets. */
  private readonly configured: ReadonlySet<string>;

  constructor(options: ModelsOptions) {
    this.options = options;
    const { sources, aliases } = options.config;
    this.configured = new Set(sources.aliases === 'models.json' ? [] : Object.keys(aliases));
  }

  /** The models of all providers. */
  list(): Promise<ModelRecord[]> {
    return this.options.providers.models();
  }

  /** An alias is shown with its default options. */
  async show(id: string): Promise<ModelDetails> {
    const { config, local } = this.options;
    const alias = aliasOf(id, config.aliases);
    const target = config.aliases[alias ?? ''];
    if (alias === null || typeof target !== 'string') return local.show(id);
    const preset = this.presetOf(alias);
    const model = hasOwnLoad(preset)
      ? await local.show(alias)
      : isLocal(target)
        ? await local.show(target)
        : { ...(await this.find(target)), metadata: {}, metadata_left_out: 0 };
    const { licence = model.licence ?? null, system = model.defaults?.system } = preset;
    const { messages = [], ...asked } = requestPart(preset);
    const { system: _, ...options } = { ...model.defaults?.options, ...asked };
    return {
      ...model,
      id: alias,
      name: alias,
      licence,
      defaults: withoutNull({ system, options, turns: messages.length || null }),
      alias_of: target,
      modelfile: writeModelfile(target, preset),
    };
  }

  /** The model that answers a run with this name first. Throws model_unknown, provider_unknown. */
  async find(model: string): Promise<ModelRecord> {
    const { config, providers } = this.options;
    const listed = (id: string) => providers.listed(id);
    const [route] = chooseRoutes({ model }, config, providers.settings(), listed);
    const id = `${route.provider}/${route.model}`;
    const found = (await this.list()).find((each) => each.id === id);
    if (found !== undefined) return found;
    // A local file has more names than the one in the list. For an alias this is its own load.
    const isAlias = aliasOf(route.model, config.aliases) !== null;
    if (route.provider === LOCAL) return this.show(isAlias ? id : route.model);
    throw new SvcError('model_unknown', `There is no model ${JSON.stringify(model)}.`, {
      param: 'model',
    });
  }

  /** The first target of such a run. Throws the errors of `chooseRoutes`. */
  next(request: NextInput & Pick<NextTurn, 'turns_of'>): NextTurn {
    const { config, providers } = this.options;
    const input = withPreset(request as RunInput, config.alias_presets);
    const listed = (id: string) => providers.listed(id);
    const [first] = chooseRoutes(input, config, providers.settings(), listed);
    return {
      ...first,
      ...withoutNull({ conversation: request.conversation, turns_of: request.turns_of }),
    };
  }

  /** Whether the request names a file by its path, and not a model of the list. */
  isFile(request: Pick<RunInput, 'provider' | 'model' | 'cloud'>): boolean {
    const { config, providers } = this.options;
    return namesFile(request, config, providers.settings(), (id) => providers.listed(id));
  }

  /** Of an alias only the name is removed. A removed model is no longer the default. */
  async remove(id: string): Promise<ModelRecord> {
    const { kernel, local, config, providers } = this.options;
    const alias = aliasOf(id, config.aliases);
    if (alias !== null) {
      await this.setAlias(alias, null);
      // The record of a removed alias.
      return { ...nameAlone(LOCAL, alias), id: alias };
    }
    const removed = await rejectWhenStalled(kernel, () => local.remove(id));
    if (config.sources.model === 'models.json' && config.model === removed.name)
      await this.options.change(() => this.choose(null));
    await providers.probe(LOCAL);
    return removed;
  }

  /** The models folder, and the partial downloads in it. */
  place(): ReturnType<LocalModelsPort['place']> {
    return this.options.local.place();
  }

  /** Other names of models. One may lead to several targets. */
  aliases(): Aliases {
    return this.options.config.aliases;
  }

  /** Makes it the default model of the local engine. */
  async use(id: string): Promise<ModelRecord> {
    const { config, local, change } = this.options;
    return change(async () => {
      refuseConfigured(config, 'model', 'The default model');
      const model = await local.show(id);
      if (model.state === 'invalid')
        throw new SvcError('model_invalid', `${model.id} cannot be used: ${model.problem}.`, {
          param: 'model',
        });
      // Models that only other programs use have no `completion`.
      if (model.state !== 'not_checked' && !model.capabilities.includes('completion'))
        throw new SvcError('capability_missing', `${model.id} writes no answers.`, {
          param: 'model',
        });
      // The path of a file of another program stays, whatever that program calls it later.
      const chosen = model.source === 'svc' ? model.name : (model.path ?? model.name);
      await this.choose(chosen);
      return { ...model, default: true };
    });
  }

  /** Null: none is chosen. */
  private async choose(model: string | null): Promise<void> {
    const { config, local, saveChoices } = this.options;
    await saveChoices((choices) => ({ ...choices, default: model }));
    config.model = model ?? settingSpecs.model.default;
    config.sources.model = model === null ? 'default' : 'models.json';
    local.default = config.model;
  }

  /** The default options of runs with this alias. */
  presetOf(alias: string): ModelPreset {
    return this.options.config.alias_presets[alias] ?? {};
  }

  /** The same, of a Modelfile. Throws with the line that is wrong. */
  createFrom(input: ModelfileInput): Promise<MadeModel> {
    return createFromModelfile(this, input);
  }

  /**
   * Gives a model one more name, with default options. Those of `from` apply where the preset has
   * none. Throws the errors of `find`, and invalid_request.
   */
  async create(name: string, from: string, preset: ModelPreset): Promise<MadeModel> {
    const { config, local } = this.options;
    const created = withoutTag(name);
    const base = aliasOf(from, config.aliases);
    const target = base === null ? await this.targetOf(from) : config.aliases[base];
    if (typeof target !== 'string')
      throw invalidRequest('from', `${from} means several models. Name one of them.`);
    if ((await this.list()).some((model) => model.name === created || model.id === created))
      throw invalidRequest('name', `There is a model ${created} already. Choose another name.`);
    const fullPreset = { ...(base === null ? {} : this.presetOf(base)), ...preset };
    const own = loadedAliasesOf({
      aliases: { [created]: target },
      alias_presets: { [created]: fullPreset },
    });
    for (const each of own) {
      if (!isLocal(target))
        throw invalidRequest(
          'from',
          `Templates and adapters need a local model, and ${target} is not one.`,
        );
      await local.check(each);
    }
    await this.setAlias(created, target, Object.keys(fullPreset).length === 0 ? null : fullPreset);
    return { ...(await this.find(created)), id: created, name: created, alias_of: target };
  }

  /** The target of an alias of this model: its id, or the path of a file that has no name. */
  private async targetOf(model: string): Promise<string> {
    const { id, provider, name } = await this.find(model);
    return provider === LOCAL && isAbsolute(name) ? name : id;
  }

  /** Null removes the alias. `preset`: the default options of its runs. */
  async setAlias(
    name: string,
    model: string | null,
    preset: ModelPreset | null = null,
  ): Promise<{ aliases: Aliases }> {
    const { config, change, saveChoices } = this.options;
    return change(async () => {
      if (config.sources.aliases !== 'models.json' && this.configured.has(name))
        refuseConfigured(config, 'aliases', `The alias ${name}`);
      if (!/^[^\s/]{1,128}$/.test(name) || name === '__proto__')
        throw new SvcError('invalid_request', 'An alias has no space and no slash.', {
          param: 'name',
        });
      if (model === null && !Object.hasOwn(config.aliases, name))
        throw new SvcError('model_unknown', `There is no alias ${JSON.stringify(name)}.`, {
          param: 'name',
          hint: 'See: svc model alias',
        });
      if (model !== null) refuseTooMany(config.aliases, name);
      const problem = preset === null ? null : modelPresetProblem({ [name]: preset });
      if (problem !== null) throw new SvcError('invalid_request', `A model ${problem}.`);
      const edit = <V>(values: Readonly<Record<string, V>>, value: V | null) => {
        const { [name]: _, ...rest } = values;
        return value === null ? rest : { ...rest, [name]: value };
      };
      await saveChoices(({ aliases, presets, ...choices }) => ({
        ...choices,
        aliases: edit(aliases, model),
        presets: edit(presets, preset),
      }));
      config.aliases = edit<Aliases[string]>(config.aliases, model);
      config.alias_presets = edit(config.alias_presets, preset);
      if (config.sources.aliases === 'default') config.sources.aliases = 'models.json';
      return { aliases: config.aliases };
    });
  }
}

function isLocal(target: string): boolean {
  return target.startsWith(`${LOCAL}/`) || isAbsolute(target);
}

/** A longer list is no list for a person. */
const ALIASES_MAX = 1000;

function refuseTooMany(aliases: Config['aliases'], name: string): void {
  if (Object.hasOwn(aliases, name) || Object.keys(aliases).length < ALIASES_MAX) return;
  throw new SvcError('invalid_request', `There are ${ALIASES_MAX} aliases already.`, {
    param: 'name',
  });
}
