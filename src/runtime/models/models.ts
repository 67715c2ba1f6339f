import type { Config } from '../../config/config.ts';
import type { ModelChoices } from '../../config/models-file.ts';
import { refuseConfigured } from '../../config/refuse-configured.ts';
import { SvcError } from '../../errors.ts';
import type { ModelRecord, PartialModel } from '../../providers/port.ts';
import type { ModelDetails, Runtime } from '../contract.ts';

/** The models of the local engine. */
export interface LocalModelsPort {
  /** Model of a run without a model. */
  default: string;
  show(id: string): Promise<ModelDetails>;
  remove(id: string): Promise<ModelRecord>;
  place(): Promise<{ folder: string; partial: PartialModel[] }>;
}

export interface ModelsOptions {
  config: Config;
  local: LocalModelsPort;
  /** Puts a file into the models folder. Resolves with the model. */
  importFile(
    input: { path: string; name: string | null },
    signal: AbortSignal,
  ): Promise<ModelRecord>;
  saveChoices(edit: (choices: ModelChoices) => ModelChoices): Promise<ModelChoices>;
  /** Changes of the configuration, one after the other. */
  changed<T>(change: () => Promise<T>): Promise<T>;
}

type Models = Pick<Runtime, 'aliases' | 'showModel' | 'modelsPlace' | 'useModel' | 'setAlias'> &
  Pick<Runtime, 'importModel'>;

/**
 * Requests about the models of this machine. What `useModel` and `setAlias` choose counts at once,
 * and after the next start. What the user configures goes before it.
 */
export function createModels(options: ModelsOptions): Models {
  const { config, local, changed } = options;
  /** The aliases that the configuration sets. */
  const configured = new Set(
    config.sources.aliases === 'models.json' ? [] : Object.keys(config.aliases),
  );
  return {
    aliases: () => config.aliases,
    showModel: (id) => local.show(id),
    modelsPlace: () => local.place(),
    importModel: (input, signal) => options.importFile({ name: null, ...input }, signal),
    useModel: (id) =>
      changed(async () => {
        refuseConfigured(config, 'model', 'The default model');
        const model = await local.show(id);
        if (model.state === 'invalid')
          throw new SvcError('model_invalid', `${model.id} cannot be used: ${model.problem}.`, {
            param: 'model',
          });
        // The path of a file of another program stays, whatever that program calls it later.
        const chosen = model.source === 'svc' ? model.name : (model.path ?? model.name);
        await options.saveChoices((choices) => ({ ...choices, default: chosen }));
        config.model = chosen;
        config.sources.model = 'models.json';
        local.default = chosen;
        return { ...model, default: true };
      }),
    setAlias: (name, model) =>
      changed(async () => {
        if (config.sources.aliases !== 'models.json' && configured.has(name))
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
        const edit = <V>(aliases: Readonly<Record<string, string | V>>) => {
          const { [name]: _, ...rest } = aliases;
          return model === null ? rest : { ...rest, [name]: model };
        };
        await options.saveChoices((choices) => ({ ...choices, aliases: edit(choices.aliases) }));
        config.aliases = edit(config.aliases);
        if (config.sources.aliases === 'default') config.sources.aliases = 'models.json';
        return { aliases: config.aliases };
      }),
  };
}

/** A longer list is no list for a person. */
const ALIASES_MAX = 1000;

function refuseTooMany(aliases: Config['aliases'], name: string): void {
  if (Object.hasOwn(aliases, name) || Object.keys(aliases).length < ALIASES_MAX) return;
  throw new SvcError('invalid_request', `There are ${ALIASES_MAX} aliases already.`, {
    param: 'name',
  });
}
